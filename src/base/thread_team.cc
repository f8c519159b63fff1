#include "base/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/machine.h"

namespace thalweg::base {
namespace {

// Long enough for the host code between two ops of a decode step, short enough to be nothing beside
// a time slice of the scheduler.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kPausesPerLook = 16;
constexpr int64_t kCacheLineBytes = 64;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `word` is no longer `old`: spinning first, asleep later. Returns what it is then.
uint32_t Await(const std::atomic<uint32_t>& word, uint32_t old) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      const uint32_t now = word.load(std::memory_order_acquire);
      if (now != old) return now;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

void RunOn(std::span<const int> processors) {
  std::array<cpu_set_t, 8> sets = {};
  for (const int cpu : processors) CPU_SET_S(cpu, sizeof(sets), sets.data());
  // A refusal (the mask was narrowed since) leaves the thread where it is, which is slower and no
  // error.
  static_cast<void>(sched_setaffinity(0, sizeof(sets), sets.data()));
}

}  // namespace

// The members beside the caller. A job is posted as a ticket that holds how many pieces there are
// and how many are taken; taking one is one compare-and-swap, so a member that wakes late finds
// nothing and holds nobody up. The fields of a job are read by holders of a piece only, and
// rewritten when every piece is done.
struct ThreadTeam::Crew {
  explicit Crew(int members, std::vector<int> member_cores) : cores(std::move(member_cores)) {
    for (int m = 1; m <= members; ++m) threads.emplace_back([this, m] { Serve(m); });
  }

  ~Crew() {
    stop.store(true, std::memory_order_relaxed);
    posted.fetch_add(1, std::memory_order_release);
    posted.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void Serve(int member) {
    const auto at = static_cast<size_t>(member);
    if (cores.empty()) {
      RunOn(AllowedProcessors());
    } else {
      RunOn({&cores[at % cores.size()], 1});
    }
    for (uint32_t seen = 0;;) {
      seen = Await(posted, seen);
      if (stop.load(std::memory_order_relaxed)) return;
      TakePieces();
    }
  }

  void Post(const Job& next) {
    job = next;
    done.store(0, std::memory_order_relaxed);
    const uint64_t number = posted.load(std::memory_order_relaxed) + uint64_t{1};
    ticket.store(number << 32 | static_cast<uint64_t>(next.pieces) << 16,
                 std::memory_order_release);
    posted.store(static_cast<uint32_t>(number), std::memory_order_release);
    posted.notify_all();
  }

  void TakePieces() {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while ((seen & 0xffff) < (seen >> 16 & 0xffff)) {
      if (!ticket.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) continue;
      const int64_t pieces = job.pieces;
      job.Run(static_cast<int64_t>(seen & 0xffff));
      // From here on the job may be another.
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == pieces) done.notify_one();
      seen = ticket.load(std::memory_order_acquire);
    }
  }

  void AwaitEnd() {
    const auto pieces = static_cast<uint32_t>(job.pieces);
    for (uint32_t now = done.load(std::memory_order_acquire); now != pieces;)
      now = Await(done, now);
  }

  alignas(kCacheLineBytes) std::atomic<uint32_t> posted = 0;  // number of the newest job
  std::atomic<bool> stop = false;
  Job job;
  alignas(kCacheLineBytes) std::atomic<uint64_t> ticket = 0;  // number, pieces, pieces taken
  alignas(kCacheLineBytes) std::atomic<uint32_t> done = 0;    // pieces of the job that are done
  std::atomic<bool> busy = false;                             // a caller has the crew
  std::vector<int> cores;                                     // [members + 1], empty: not pinned
  std::vector<std::thread> threads;
};

ThreadTeam::ThreadTeam(int threads, Pinning pinning)
    : threads_(threads > 0 ? threads : AvailableProcessors()) {
  TW_CHECK_GE(threads, 0);
  if (threads_ == 1) return;
  std::vector<int> cores = PhysicalCores(AllowedProcessors());
  const auto available = std::min(static_cast<int>(cores.size()), CpuQuota());
  pinned_ = pinning == Pinning::kOn || (pinning == Pinning::kAuto && threads_ == available &&
                                        available == static_cast<int>(cores.size()));
  if (!pinned_) cores.clear();
  crew_ = std::make_unique<Crew>(threads_ - 1, std::move(cores));
}

ThreadTeam::~ThreadTeam() = default;

void ThreadTeam::PinCaller() const {
  if (pinned_) RunOn({crew_->cores.data(), 1});
}

int64_t ThreadTeam::Pieces(int64_t count, int64_t grain) const {
  if (crew_ == nullptr) return 1;
  const int64_t most = std::min<int64_t>(threads_ * kPiecesPerThread, 0xffff);
  return std::min(most, grain > 0 ? count / grain : count);
}

void ThreadTeam::Share(const Job& job) const {
  if (crew_->busy.exchange(true, std::memory_order_acquire)) {
    job.run(job.body, 0, job.count);
    return;
  }
  crew_->Post(job);
  crew_->TakePieces();
  crew_->AwaitEnd();
  crew_->busy.store(false, std::memory_order_release);
}

}  // namespace thalweg::base
