// Lists of the experts of a call, and tables of their weights.
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/experts.h"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/list_experts.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kListThreads = 1024;
constexpr int64_t kListedRows = 8;  // up to which the block that chooses makes the lists

__global__ void __launch_bounds__(kListThreads) ListKernel(const ExpertListJob p) {
  WaitForEarlier();
  ListByBlock<kListThreads>(p);
}

struct Table {
  std::vector<char> host;
  FeedForward* device = nullptr;
};

}  // namespace

int64_t MostExpertGroups(int64_t rows, int64_t topk, int64_t experts) {
  return base::CeilDiv(rows, int64_t{8}) + rows * topk / 8 + std::min(rows * topk, experts);
}

int64_t MostExpertTiles(int64_t rows, int64_t topk, int64_t experts, int tile_rows) {
  const int64_t slots = rows * topk;
  return base::CeilDiv(rows, int64_t{tile_rows}) + slots / tile_rows + std::min(slots, experts);
}

void ListExperts(Queue* queue, const int32_t* chosen, int64_t rows, int64_t topk, int64_t experts,
                 int tile_rows, const ExpertLists& lists, int shared_rows) {
  TW_CHECK(experts > 0 && experts <= kMostExperts);
  const ExpertListJob job{chosen,
                          static_cast<int>(rows * topk),
                          static_cast<int>(rows),
                          static_cast<int>(experts),
                          tile_rows,
                          lists,
                          shared_rows == 0 ? tile_rows : shared_rows};
  HeldJobs& held = queue->held();
  if (held.choose.rows == rows && held.choose.chosen == chosen && rows <= kListedRows) {
    held.list = job;
    return queue->LaunchHeld();
  }
  LaunchEarly(queue, ListKernel, 1, kListThreads, 0, job);
}

namespace {

// Tables stay for the life of the process: a model's own are few and come in every step. One is of
// one model, whose thread alone asks for it. The lock is not held while a device is waited for: it
// may wait for what another thread has to queue (ranks).
Table& TableOf(const void* experts) {
  static std::mutex mutex;
  static auto* tables = new std::unordered_map<const void*, Table>();
  const std::lock_guard lock(mutex);
  return (*tables)[experts];
}

}  // namespace

const FeedForward* ExpertTable(Queue* queue, const ExpertsParams& p) {
  const size_t bytes = p.experts.size() * sizeof(FeedForward);
  std::vector<char> now(bytes + sizeof(FeedForward));
  std::memcpy(now.data(), p.experts.data(), bytes);
  std::memcpy(now.data() + bytes, &p.shared, sizeof(FeedForward));
  Table& table = TableOf(p.experts.data());
  if (table.host == now) return table.device;
  // Kernels under way, of any queue, may still read the old one.
  if (table.device != nullptr) queue->Note(cudaDeviceSynchronize());
  if (table.host.size() != now.size()) {
    queue->Note(cudaFree(table.device));
    queue->Note(cudaMalloc(reinterpret_cast<void**>(&table.device), now.size()));
  }
  queue->Note(cudaMemcpy(table.device, now.data(), now.size(), cudaMemcpyHostToDevice));
  // A copy from memory that is not pinned may still be on its way; queues do not wait for it.
  queue->Note(cudaStreamSynchronize(nullptr));
  table.host = std::move(now);
  return table.device;
}

}  // namespace thalweg::kernels::cuda
