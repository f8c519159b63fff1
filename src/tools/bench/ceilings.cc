#include "tools/bench/ceilings.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "tensor/buffer.h"
#include "tools/bench/clock.h"
#include "tools/bench/peaks.h"

namespace thalweg::tools::bench {
namespace {

// Many short samples: on a machine that does other work too, some of them run undisturbed.
constexpr int kPeakSamples = 60;
constexpr double kPeakSampleSeconds = 0.002;
constexpr int64_t kReadSampleBytes = int64_t{64} << 20;  // of one thread's piece
constexpr int64_t kMostStreams = 8;
constexpr int64_t kPieceUnit = kMostStreams * kReadStep;
constexpr int64_t kHugePage = int64_t{2} << 20;

// Keeps in best_s[t] the least time that piece t of the team took for `turns`; each piece times
// itself, so that a member that is held up spoils no more than its own sample.
void RunLoop(const base::ThreadTeam& team, const PeakLoop& loop, int64_t turns,
             std::vector<double>* best_s) {
  team.ParallelFor(team.size(), 1, [&](int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) {
      const auto begin = std::chrono::steady_clock::now();
      loop.run(turns);
      double& best = (*best_s)[static_cast<size_t>(t)];
      best = std::min(best, SecondsSince(begin));
    }
  });
}

Peak PeakOf(const base::ThreadTeam& team, const PeakLoop& loop) {
  constexpr int64_t kTrialTurns = 2'000;
  constexpr int kTrials = 20;  // the first ones wake the team and the wide units
  std::vector<double> best_s(static_cast<size_t>(team.size()), 1e30);
  for (int trial = 0; trial < kTrials; ++trial) RunLoop(team, loop, kTrialTurns, &best_s);
  const double trial_s = *std::min_element(best_s.begin(), best_s.end());
  const auto turns = static_cast<int64_t>(kTrialTurns * kPeakSampleSeconds / trial_s) + 1;
  std::fill(best_s.begin(), best_s.end(), 1e30);
  for (int sample = 0; sample < kPeakSamples; ++sample) RunLoop(team, loop, turns, &best_s);
  Peak peak{.instruction = std::string(loop.instruction)};
  for (const double s : best_s) {
    peak.gflop_s += static_cast<double>(turns * loop.operations) / s / 1e9;
  }
  return peak;
}

}  // namespace

// Pages of 2 MiB where allowed, written once by the threads that will read them.
ReadGauge::ReadGauge(const base::ThreadTeam& team, int64_t bytes)
    : team_(team),
      piece_(bytes / team.size() / kPieceUnit * kPieceUnit),
      mapped_(static_cast<size_t>(base::RoundUp(bytes, kHugePage))) {
  TW_CHECK_GT(piece_, 0);
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TW_CHECK(memory != MAP_FAILED);
  (void)madvise(memory, mapped_, MADV_HUGEPAGE);  // small pages serve too
  data_ = static_cast<std::byte*>(memory);
  team.ParallelFor(team.size(), 1, [&](int64_t begin, int64_t end) {
    std::fill(data_ + begin * piece_, data_ + end * piece_, std::byte{1});
  });
}

ReadGauge::~ReadGauge() { munmap(data_, mapped_); }

double ReadGauge::GbPerSecond() const {
  const int64_t sample = std::min(kReadSampleBytes, piece_);
  double best_s = 1e30;
  for (const ReadLoop& loop : ReadLoops()) {
    for (int64_t at = 0; at + sample <= piece_; at += sample) {
      const auto begin = std::chrono::steady_clock::now();
      team_.ParallelFor(team_.size(), 1, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) loop.run(data_ + t * piece_ + at, sample);
      });
      best_s = std::min(best_s, SecondsSince(begin));
    }
  }
  return static_cast<double>(sample * team_.size()) / best_s / 1e9;
}

const Peak& Peaks::Of(PeakKind kind) const {
  if (kind == PeakKind::kInt8) return int8;
  return kind == PeakKind::kBf16 ? bf16 : fp32;
}

Peaks MeasurePeaks(const base::ThreadTeam& team) {
  return {PeakOf(team, Fp32Loop()), PeakOf(team, Bf16Loop()), PeakOf(team, Int8Loop())};
}

}  // namespace thalweg::tools::bench
