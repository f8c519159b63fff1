// What this machine can do at best: bytes a second out of memory, and products a second in
// registers. Benches divide by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/thread_team.h"

namespace thalweg::tools::bench {

// A rate of multiplications and additions, and the instruction that reached it.
struct Peak {
  double gflop_s = 0;  // a multiply-add counts two, of integers too
  std::string instruction;
};

// Which of the peaks an op is measured against.
enum class PeakKind { kFp32, kBf16, kInt8 };

struct Peaks {
  Peak fp32;  // fused multiply-adds
  Peak bf16;  // dot products of bf16 pairs; of fp32 where the processor has none
  Peak int8;  // dot products of int8 fours; the bf16 peak where it has none

  const Peak& Of(PeakKind kind) const;
};

// Measures all of them on the threads of `team`, in half a second.
Peaks MeasurePeaks(const base::ThreadTeam& team);

// Reads memory. It keeps its buffer, so that the ceiling can be taken again beside every figure:
// what memory gives to one guest of a shared machine changes from second to second.
class ReadGauge {
 public:
  // `bytes` should be far more than the caches hold. The team must outlive the gauge.
  explicit ReadGauge(const base::ThreadTeam& team, int64_t bytes = int64_t{512} << 20);
  ReadGauge(const ReadGauge&) = delete;
  ReadGauge& operator=(const ReadGauge&) = delete;
  ~ReadGauge();

  // GB/s of the whole team, in the fastest of many samples of a few milliseconds.
  double GbPerSecond() const;

 private:
  const base::ThreadTeam& team_;
  int64_t piece_;  // bytes of each thread
  size_t mapped_;
  std::byte* data_ = nullptr;
};

}  // namespace thalweg::tools::bench
