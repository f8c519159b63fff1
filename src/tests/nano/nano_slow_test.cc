// The published figures of the shipped checkpoint over all of its data, on both CPU backends
// and in both numerics.
#include <gtest/gtest.h>

#include "tests/nano/figures.h"

namespace thalweg::tests {
namespace {

TEST(NanoSlow, HeldoutPerplexityReference) { CheckHeldout("reference", 1); }
TEST(NanoSlow, HeldoutPerplexityCpu) { CheckHeldout("cpu", 1); }
TEST(NanoSlow, HeldoutPerplexityFast) { CheckHeldout("cpu", 1, kernels::Numerics::kFast); }
TEST(NanoSlow, ReferenceContinuations) { CheckReference("reference", 20, 1.3, 0.98); }

}  // namespace
}  // namespace thalweg::tests
