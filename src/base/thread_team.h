// The one team of CPU threads that kernels run on. It is made above and handed in (nothing below
// `engine` starts a thread), and is backed by OpenMP because fork-join cost counts at batch 1.
#pragma once

#include <cstdint>
#include <functional>

namespace thalweg::base {

class ThreadTeam {
 public:
  // threads >= 1; 0 means as many as the process may run on (affinity and cgroup quota respected).
  explicit ThreadTeam(int threads = 0);

  int size() const { return threads_; }

  // Calls body(begin, end) on disjoint ranges that cover [0, count). `grain` is the least range
  // worth a thread of its own. Which thread gets which range never influences results: bodies write
  // to what their range owns.
  template <typename Body>
  void ParallelFor(int64_t count, int64_t grain, Body&& body) const {
    const int64_t pieces = Pieces(count, grain);
    if (pieces <= 1) {
      if (count > 0) body(int64_t{0}, count);
      return;
    }
#pragma omp parallel for num_threads(threads_) schedule(static, 1)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      body(count * piece / pieces, count * (piece + 1) / pieces);
    }
  }

 private:
  int64_t Pieces(int64_t count, int64_t grain) const;
  int threads_;
};

// Processors this process may use: the affinity mask, cut by a cgroup CPU quota; at least 1.
int AvailableProcessors();

}  // namespace thalweg::base
