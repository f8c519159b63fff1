// The router (model.md 2.6): its product is Product's, its choice is held back (row_jobs.h).
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/choose_experts.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {

void Gate(const GateParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  if (p.topk > kMaxTopk || p.experts > kMaxExperts) return queue.Note(cudaErrorNotSupported);
  auto* z =
      static_cast<float*>(queue.Scratch(p.rows * p.experts * static_cast<int64_t>(sizeof(float))));
  if (z == nullptr) return;
  if (queue.held().choose.rows > 0) queue.LaunchHeld();
  Product(p.stream, p.weight, p.x, p.hidden, p.rows, z);
  GateParams d = p;
  d.row_is_image = queue.Stage(p.row_is_image, p.rows);
  queue.held().choose = d;
  queue.held().products = z;
}

}  // namespace thalweg::kernels::cuda
