// Loops that do nothing but one kind of arithmetic in registers, or nothing but reading memory: the
// best this processor does on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace thalweg::tools::bench {

// One instruction, issued to independent accumulators.
struct PeakLoop {
  std::string_view instruction;
  int64_t operations = 0;  // of one turn; a multiply-add counts two
  void (*run)(int64_t turns) = nullptr;
};

// The widest of this processor. A dot product that it lacks falls back to the next kind: int8 to
// bf16, bf16 to fp32.
PeakLoop Fp32Loop();
PeakLoop Bf16Loop();
PeakLoop Int8Loop();

// Reads [data, data + bytes) in `streams` runs side by side and keeps nothing. bytes is a multiple
// of streams * kReadStep, data of 64.
inline constexpr int64_t kReadStep = 256;
struct ReadLoop {
  int streams = 1;
  void (*run)(const std::byte* data, int64_t bytes) = nullptr;
};
std::span<const ReadLoop> ReadLoops();

}  // namespace thalweg::tools::bench
