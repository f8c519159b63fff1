// The dot products that the fast bodies are made of: what they are defined to compute, bit for bit,
// on every target that this processor can run.
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "kernels/backends.h"
#include "kernels/cpu/dot_probe.h"

namespace thalweg::kernels::cpu {
namespace {

constexpr int kLanes = 16;
using Lanes = std::vector<uint32_t>;

std::vector<const DotProbe*> Probes() {
  std::vector<const DotProbe*> probes = {
      &generic::kDotProbe,
#ifdef THALWEG_X86_TARGETS
      &avx2::kDotProbe,
      &avx512::kDotProbe,
      &avx512bf16::kDotProbe,
      &amx::kDotProbe,
#endif
  };
  std::erase_if(probes, [](const DotProbe* probe) { return !CpuOps(probe->target).ok(); });
  return probes;
}

// Seeded words.
class Words {
 public:
  explicit Words(uint32_t seed) : engine_(seed) {}
  uint32_t operator()() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

float Half(uint32_t word, int shift) { return std::bit_cast<float>((word >> shift) << 16); }

TEST(Dot, PairsOfBF16AddTheOddProductFirstAndRoundTwice) {
  Words random(1);
  // Exponents over 2^-40..2^40, so that sums round in every way; no denormals.
  const auto half = [&] { return (random() & 0x807fu) | ((87u + random() % 81u) << 7); };
  for (int round = 0; round < 3000; ++round) {
    Lanes a(kLanes), b(kLanes);
    std::vector<float> start(kLanes), want(kLanes);
    for (size_t i = 0; i < kLanes; ++i) {
      a[i] = half() << 16 | half();
      b[i] = half() << 16 | half();
      start[i] = Half(half(), 0) * Half(half(), 0);
      want[i] = start[i] + Half(a[i], 16) * Half(b[i], 16);
      want[i] = want[i] + Half(a[i] & 0xffffu, 0) * Half(b[i] & 0xffffu, 0);
    }
    for (const DotProbe* probe : Probes()) {
      std::vector<float> sums = start;
      probe->bf16(a.data(), b.data(), sums.data());
      EXPECT_EQ(sums, want) << probe->target;
    }
  }
}

int ByteProduct(uint32_t a, uint32_t b, int shift) {
  return static_cast<int>(a >> shift & 0xffu) *
         static_cast<int>(static_cast<int8_t>(b >> shift & 0xffu));
}

TEST(Dot, QuadsOfBytesAreExact) {
  Words random(2);
  for (int round = 0; round < 3000; ++round) {
    Lanes a(kLanes), b(kLanes), start(kLanes), want(kLanes);
    for (size_t i = 0; i < kLanes; ++i) {
      // The extremes that 16-bit steps could spoil come often.
      a[i] = round % 3 == 0 ? 0x7f7f7f7fu : random() & 0x7f7f7f7fu;
      b[i] = round % 5 == 0 ? 0x80808080u : round % 5 == 1 ? 0x7f7f7f7fu : random();
      start[i] = random();
      want[i] = start[i];
      for (int shift = 0; shift < 32; shift += 8) {
        want[i] += static_cast<uint32_t>(ByteProduct(a[i], b[i], shift));
      }
    }
    for (const DotProbe* probe : Probes()) {
      Lanes counts = start;
      probe->bytes(a.data(), b.data(), counts.data());
      EXPECT_EQ(counts, want) << probe->target;
    }
  }
}

}  // namespace
}  // namespace thalweg::kernels::cpu
