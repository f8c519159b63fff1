#include "base/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "base/check.h"

namespace thalweg::base {
namespace {

// cgroup v2: "max 100000" or "150000 100000".
int CgroupProcessors() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1 << 20;
  return std::max(1, static_cast<int>(std::ceil(std::strtod(quota.c_str(), nullptr) / period)));
}

}  // namespace

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, std::min(CPU_COUNT(&set), CgroupProcessors()));
}

ThreadTeam::ThreadTeam(int threads) : threads_(threads > 0 ? threads : AvailableProcessors()) {
  TW_CHECK_GE(threads, 0);
}

int64_t ThreadTeam::Pieces(int64_t count, int64_t grain) const {
  return std::min<int64_t>(threads_, grain > 0 ? count / grain : count);
}

}  // namespace thalweg::base
