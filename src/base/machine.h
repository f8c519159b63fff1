// What this process may use of the machine: cores, CPU time, memory. Read from /proc and /sys; a
// limit that cannot be read counts as none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace thalweg::base {

// Where the kernel's files are; other folders in tests.
struct SystemFiles {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
};

// Processors of the affinity mask that the process started with (read once: pinning a thread later
// changes nothing here).
const std::vector<int>& AllowedProcessors();

// One of `allowed` for every physical core: processors that share a core (SMT) count once, the
// lowest number stands for them. Ascending.
std::vector<int> PhysicalCores(const std::vector<int>& allowed, const SystemFiles& files = {});

// Processors that the CPU quota of the tightest enclosing cgroup (version 1 or 2) pays for, rounded
// up, at least 1; a large number without a quota.
int CpuQuota(const SystemFiles& files = {});

// Threads worth starting: allowed physical cores, cut by the quota; at least 1.
int AvailableProcessors();

// Bytes that can be allocated without swapping: MemAvailable, cut by what the enclosing cgroups
// leave (page cache counts as free). -1 when the machine does not say.
int64_t FreeMemoryBytes(const SystemFiles& files = {});

// NUMA nodes that have memory, by number.
std::vector<int> MemoryNodes(const SystemFiles& files = {});

// "0-2,5" as numbers; what does not parse ends the list.
std::vector<int> ParseNumberList(const std::string& text);

}  // namespace thalweg::base
