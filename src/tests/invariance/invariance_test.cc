// A row's logits, and a draft, have the same bits for batches of 1, 7 and 64, any chunking, one to
// four threads, any verify width, packed weights or stored ones, on every target of the cpu
// backend, in both numerics. And the check can fail: products that reduce in arrival order, or that
// split K when rows are few, are found by it.
#include <gtest/gtest.h>

#include "kernels/backends.h"
#include "kernels/test_kit.h"
#include "tests/invariance/checkpoints.h"
#include "tests/invariance/split_ops.h"
#include "tests/invariance/variants.h"

namespace thalweg::tests {
namespace {

// Rows that differ from the text read at once, over all variants; on nano, which is larger, over
// every second.
int64_t Differences(const std::string& name, const kernels::Ops& ops, const Readings& expected) {
  const checkpoint::Checkpoint& checkpoint = Shipped(name);
  int64_t all = 0;
  const std::vector<Variant> variants = AllVariants();
  for (size_t i = 0; i < variants.size(); i += name == "nano" ? 2 : 1) {
    const Variant& variant = variants[i];
    const int64_t rows =
        DifferentRows(expected, Read(checkpoint, ops, variant), checkpoint.config().vocab_size);
    if (rows > 0) ::testing::Test::RecordProperty(Describe(variant), static_cast<int>(rows));
    all += rows;
  }
  return all;
}

struct Case {
  const char* checkpoint;
  kernels::Numerics numerics;
};

class Invariance : public ::testing::TestWithParam<Case> {};

TEST_P(Invariance, OfEveryTargetTheMachineRuns) {
  const auto [name, numerics] = GetParam();
  const Readings generic = ReadAtOnce(Shipped(name), **kernels::CpuOps("generic", numerics));
  for (const kernels::CpuTarget& target : kernels::CpuTargets()) {
    if (!target.supported) continue;
    const kernels::Ops& ops = **kernels::CpuOps(target.name, numerics);
    const kernels::Ops& plain = kernels::testing::PlainestLike(ops);
    const bool same = plain.sums == kernels::SumOrder::kPairByPair;
    const Readings expected = same ? generic : ReadAtOnce(Shipped(name), plain);
    EXPECT_EQ(Differences(name, ops, expected), 0) << target.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, Invariance,
                         ::testing::Values(Case{"tiny-a", kernels::Numerics::kExact},
                                           Case{"tiny-a", kernels::Numerics::kFast},
                                           Case{"tiny-b", kernels::Numerics::kExact},
                                           Case{"tiny-b", kernels::Numerics::kFast},
                                           Case{"nano", kernels::Numerics::kExact},
                                           Case{"nano", kernels::Numerics::kFast}),
                         [](const auto& one) {
                           std::string label = one.param.checkpoint;
                           std::erase(label, '-');
                           return label + (one.param.numerics == kernels::Numerics::kExact
                                               ? "_exact"
                                               : "_fast");
                         });

TEST(NegativeControl, AFixedSplitPasses) {
  const kernels::Ops& ops = FixedSplitOps();
  EXPECT_EQ(Differences("tiny-a", ops, ReadAtOnce(Shipped("tiny-a"), ops)), 0);
}

TEST(NegativeControl, ArrivalOrderIsCaught) {
  const kernels::Ops& ops = ArrivalOrderOps();
  EXPECT_GT(Differences("tiny-a", ops, ReadAtOnce(Shipped("tiny-a"), ops)), 0);
}

TEST(NegativeControl, ASplitThatDependsOnTheRowsIsCaught) {
  const kernels::Ops& ops = SplitByRowsOps();
  EXPECT_GT(Differences("tiny-a", ops, ReadAtOnce(Shipped("tiny-a"), ops)), 0);
}

}  // namespace
}  // namespace thalweg::tests
