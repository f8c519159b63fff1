// The one team of CPU threads that kernels run on. It is made above and handed in (nothing below
// `engine` starts a thread). Members wait for work spinning for some tens of microseconds, which
// makes a fork cheap at batch 1, and asleep after that, so that a busy machine is not made busier.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace thalweg::base {

// Whether members stay on one core each.
enum class Pinning {
  kAuto,  // when the team takes every core that the process may use: a smaller team that is pinned
          // would meet other pinned teams on the first cores
  kOn,    // up to one member a core
  kOff,
};

class ThreadTeam {
 public:
  // threads >= 1; 0 means one for each physical core that the process may run on (affinity and
  // cgroup quota respected). The caller of ParallelFor is a member: threads - 1 are started.
  explicit ThreadTeam(int threads = 0, Pinning pinning = Pinning::kAuto);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return threads_; }
  bool pinned() const { return pinned_; }

  // Moves the calling thread to the core that the team leaves to its caller, if the team is pinned.
  // Threads that the caller starts later inherit the place.
  void PinCaller() const;

  // Calls body(begin, end) on disjoint ranges that cover [0, count), up to kPiecesPerThread ranges
  // a member, handed out as members come for them: a slow core holds up no more than one range.
  // `grain` is the least range worth handing out. Which thread gets which range never influences
  // results: bodies write to what their range owns. Bodies must not throw. A call from within a
  // body, or while another thread's call is under way, runs its body on the calling thread alone.
  template <typename Body>
  void ParallelFor(int64_t count, int64_t grain, Body&& body) const {
    const int64_t pieces = Pieces(count, grain);
    if (pieces <= 1) {
      if (count > 0) body(int64_t{0}, count);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    Share({.run = [](void* erased, int64_t begin,
                     int64_t end) noexcept { (*static_cast<Plain*>(erased))(begin, end); },
           .body = const_cast<void*>(static_cast<const void*>(std::addressof(body))),
           .count = count,
           .pieces = pieces});
  }

 private:
  static constexpr int64_t kPiecesPerThread = 4;

  struct Job {
    void (*run)(void* body, int64_t begin, int64_t end) noexcept = nullptr;
    void* body = nullptr;
    int64_t count = 0;
    int64_t pieces = 0;

    void Run(int64_t piece) const {
      run(body, count * piece / pieces, count * (piece + 1) / pieces);
    }
  };
  struct Crew;  // the started threads

  int64_t Pieces(int64_t count, int64_t grain) const;
  void Share(const Job& job) const;

  int threads_;
  bool pinned_ = false;
  std::unique_ptr<Crew> crew_;  // null: the caller alone
};

}  // namespace thalweg::base
