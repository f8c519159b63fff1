// The bits that ops give are written down here: every cpu target that sums pair by pair gives them,
// on x86-64 and on AArch64 (scripts/check_aarch64.sh). A change that moves a bit of a result has to
// say so by changing a number below.
#include <gtest/gtest.h>

#include <bit>
#include <ios>
#include <numeric>

#include "kernels/backends.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

constexpr int kCalledRows = 33;

struct Group {
  const char* name;
  void (*add)(RowOps*);
  uint64_t exact, fast;  // HashOf all ops of the group
};

constexpr Group kGroups[] = {
    {"projections", AddProjectionCases, 0x8dc0f06e465d9e33u, 0x4a7ae730bfdf618du},
    {"hyper-connections", AddHyperConnectionCases, 0xe322e46054ebb2dbu, 0xe322e46054ebb2dbu},
    {"experts", AddExpertCases, 0x77755c722a1bd2b1u, 0x912a9b3daa49d2b1u},
    {"caches", AddCacheCases, 0x9fbb3164a901ff7du, 0x9fbb3164a901ff7du},
    {"attention and index", AddAttentionCases, 0x929e2776c2202f4fu, 0x929e2776c2202f4fu},
    {"engram", AddEngramCases, 0x8773d8b8432f7015u, 0x8773d8b8432f7015u},
};

// FNV-1a of the bits of all outputs.
uint64_t HashOf(const RowOps& cases, const Ops& ops) {
  const base::ThreadTeam team(2);
  Rows rows(kCalledRows);
  std::iota(rows.begin(), rows.end(), 0);
  uint64_t hash = 0xcbf29ce484222325u;
  for (const auto& op : cases) {
    for (const std::vector<float>& row : op->Run(ops, team, rows)) {
      for (const float value : row) {
        hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3u;
      }
    }
  }
  return hash;
}

void ExpectHash(const Group& group, const RowOps& cases, const Ops& ops, uint64_t want) {
  if (ops.sums != SumOrder::kPairByPair) return;
  const uint64_t got = HashOf(cases, ops);
  EXPECT_EQ(got, want) << group.name << ": 0x" << std::hex << got;
}

TEST(PinnedBits, EveryTargetOfOneOrderGivesThem) {
  for (const Group& group : kGroups) {
    RowOps cases;
    group.add(&cases);
    for (const CpuTarget& target : CpuTargets()) {
      if (!target.supported) continue;
      SCOPED_TRACE(target.name);
      ExpectHash(group, cases, *target.ops, group.exact);
      ExpectHash(group, cases, *target.fast, group.fast);
    }
  }
}

}  // namespace
}  // namespace thalweg::kernels::testing
