// What the machine lets the process use is read from the kernel's files: SMT siblings count once,
// the tightest enclosing cgroup of either version limits, page cache counts as free memory.
#include "base/machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace thalweg::base {
namespace {

namespace fs = std::filesystem;

// A made-up /proc and /sys.
class Machine : public ::testing::Test {
 protected:
  Machine() : root_(fs::temp_directory_path() / fmt::format("thalweg-machine-{}", getpid())) {}
  ~Machine() override { fs::remove_all(root_); }

  SystemFiles files() const { return {root_ / "proc", root_ / "sys"}; }
  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

 private:
  fs::path root_;
};

TEST_F(Machine, SiblingsOfACoreCountOnce) {
  for (const int cpu : {0, 1, 4, 5}) {
    Write(fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu),
          fmt::format("{},{}\n", cpu % 4, cpu % 4 + 4));
  }
  EXPECT_EQ(PhysicalCores({0, 1, 4, 5}, files()), (std::vector<int>{0, 1}));
  EXPECT_EQ(PhysicalCores({1, 4, 5}, files()), (std::vector<int>{1, 4}));
  EXPECT_EQ(PhysicalCores({8, 9}, files()), (std::vector<int>{8, 9}));  // nothing known of these
}

TEST_F(Machine, TheTightestQuotaCounts) {
  EXPECT_GT(CpuQuota(files()), 4096);
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(CpuQuota(files()), 2);
  Write("proc/self/cgroup", "4:cpu,cpuacct:/c\n");
  Write("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n");
  Write("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuQuota(files()), 1);
  Write("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
  EXPECT_GT(CpuQuota(files()), 4096);
}

TEST_F(Machine, FreeMemoryIsWhatTheGroupLeaves) {
  EXPECT_EQ(FreeMemoryBytes(files()), -1);
  Write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   50 kB\n");
  EXPECT_EQ(FreeMemoryBytes(files()), 50 * 1024);
  Write("proc/self/cgroup", "0::/a\n");
  Write("sys/fs/cgroup/a/memory.max", "max\n");
  Write("sys/fs/cgroup/a/memory.current", "20000\n");
  EXPECT_EQ(FreeMemoryBytes(files()), 50 * 1024);
  Write("sys/fs/cgroup/a/memory.max", "30000\n");
  EXPECT_EQ(FreeMemoryBytes(files()), 10000);
  Write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 4000\nactive_file 1000\n");
  EXPECT_EQ(FreeMemoryBytes(files()), 15000);
}

TEST_F(Machine, NodesWithMemory) {
  EXPECT_TRUE(MemoryNodes(files()).empty());
  Write("sys/devices/system/node/has_memory", "0-1,4\n");
  EXPECT_EQ(MemoryNodes(files()), (std::vector<int>{0, 1, 4}));
}

TEST(NumberList, RangesAndGarbage) {
  EXPECT_EQ(ParseNumberList("0-2,5\n"), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(ParseNumberList("7"), std::vector<int>{7});
  EXPECT_TRUE(ParseNumberList("").empty());
  EXPECT_TRUE(ParseNumberList("x").empty());
  EXPECT_LT(ParseNumberList("0-2000000000").size(), 10000u);
}

TEST(ThisMachine, HasAtLeastOneOfEverything) {
  EXPECT_FALSE(AllowedProcessors().empty());
  EXPECT_GE(AvailableProcessors(), 1);
  EXPECT_LE(static_cast<size_t>(AvailableProcessors()), AllowedProcessors().size());
  EXPECT_NE(FreeMemoryBytes(), 0);
}

}  // namespace
}  // namespace thalweg::base
