#include "base/machine.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string>

namespace thalweg::base {
namespace {

namespace fs = std::filesystem;

constexpr int kNoQuota = 1 << 20;
constexpr int kMostProcessors = 8192;

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int64_t> ReadNumber(const fs::path& path) {
  const std::string line = FirstLine(path);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The number behind `key` in a file of "key value" lines ("MemAvailable: 12 kB").
std::optional<int64_t> ReadField(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

std::vector<int> ReadAffinity() {
  std::array<cpu_set_t, kMostProcessors / CPU_SETSIZE> sets = {};
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof(sets), sets.data()) != 0) return {0};
  for (int cpu = 0; cpu < kMostProcessors; ++cpu) {
    if (CPU_ISSET_S(cpu, sizeof(sets), sets.data())) out.push_back(cpu);
  }
  return out;
}

bool Names(const std::string& controllers, std::string_view wanted) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');) {
    if (one == wanted) return true;
  }
  return false;
}

// A folder and those above it, down to `root`.
std::vector<fs::path> Enclosing(const fs::path& root, const fs::path& below) {
  std::vector<fs::path> folders = {root};
  for (const fs::path& part : below.relative_path()) folders.push_back(folders.back() / part);
  return folders;
}

// The cgroups of this process that `controller` ("cpu", "memory") may limit: those of version 2
// first, then those of version 1.
struct Cgroups {
  std::vector<fs::path> v2;
  std::vector<fs::path> v1;
};

Cgroups FindCgroups(std::string_view controller, const SystemFiles& files) {
  Cgroups out;
  const fs::path root = files.sys / "fs/cgroup";
  std::ifstream file(files.proc / "self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/docker/1234", "0::/"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (names.empty()) out.v2 = Enclosing(root, path);
    if (Names(names, controller)) out.v1 = Enclosing(root / std::string(controller), path);
  }
  return out;
}

int Processors(double quota, double period) {
  if (quota <= 0 || period <= 0) return kNoQuota;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, double{kNoQuota}));
}

int QuotaV2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");  // "max 100000", "150000 100000"
  double quota = 0;
  double period = 0;
  return file >> quota >> period ? Processors(quota, period) : kNoQuota;
}

int QuotaV1(const fs::path& group) {
  const double quota = static_cast<double>(ReadNumber(group / "cpu.cfs_quota_us").value_or(-1));
  return Processors(quota,
                    static_cast<double>(ReadNumber(group / "cpu.cfs_period_us").value_or(0)));
}

// What a group leaves: its limit less its use, of which page cache can be reclaimed.
int64_t LeftIn(const fs::path& group, const char* limit_file, const char* use_file,
               std::string_view prefix) {
  const std::optional<int64_t> limit = ReadNumber(group / limit_file);
  const std::optional<int64_t> use = ReadNumber(group / use_file);
  if (!limit || !use) return std::numeric_limits<int64_t>::max();
  int64_t cache = 0;
  for (const char* kind : {"inactive_file", "active_file"})
    cache += ReadField(group / "memory.stat", std::string(prefix) + kind).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *use - cache));
}

}  // namespace

std::vector<int> ParseNumberList(const std::string& text) {
  std::vector<int> out;
  std::istringstream list(text);
  for (std::string range; std::getline(list, range, ',');) {
    const char* end = range.data() + range.size();
    int first = 0;
    const auto head = std::from_chars(range.data(), end, first);
    if (head.ec != std::errc()) break;
    int last = first;
    if (head.ptr != end && *head.ptr == '-') std::from_chars(head.ptr + 1, end, last);
    for (int i = first; i <= std::min(last, first + kMostProcessors); ++i) out.push_back(i);
  }
  return out;
}

const std::vector<int>& AllowedProcessors() {
  static const std::vector<int> allowed = ReadAffinity();
  return allowed;
}

std::vector<int> PhysicalCores(const std::vector<int>& allowed, const SystemFiles& files) {
  std::set<int> seen;
  std::vector<int> cores;
  for (const int cpu : allowed) {
    if (seen.contains(cpu)) continue;
    cores.push_back(cpu);
    const fs::path list = files.sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu)) /
                          "topology/thread_siblings_list";
    for (const int sibling : ParseNumberList(FirstLine(list))) seen.insert(sibling);
    seen.insert(cpu);
  }
  return cores;
}

int CpuQuota(const SystemFiles& files) {
  const Cgroups groups = FindCgroups("cpu", files);
  int quota = kNoQuota;
  for (const fs::path& group : groups.v2) quota = std::min(quota, QuotaV2(group));
  for (const fs::path& group : groups.v1) quota = std::min(quota, QuotaV1(group));
  return quota;
}

int AvailableProcessors() {
  const auto cores = static_cast<int>(PhysicalCores(AllowedProcessors()).size());
  return std::max(1, std::min(cores, CpuQuota()));
}

int64_t FreeMemoryBytes(const SystemFiles& files) {
  const std::optional<int64_t> free_kib = ReadField(files.proc / "meminfo", "MemAvailable:");
  if (!free_kib) return -1;
  int64_t free = *free_kib * 1024;
  const Cgroups groups = FindCgroups("memory", files);
  for (const fs::path& group : groups.v2)
    free = std::min(free, LeftIn(group, "memory.max", "memory.current", ""));
  for (const fs::path& group : groups.v1)
    free =
        std::min(free, LeftIn(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"));
  return free;
}

std::vector<int> MemoryNodes(const SystemFiles& files) {
  return ParseNumberList(FirstLine(files.sys / "devices/system/node/has_memory"));
}

}  // namespace thalweg::base
