// Sorts the slots of a call by expert. Where a slot comes within its expert's list may differ from
// run to run: it says which column of a tile a row is, and no bit of a row depends on that.
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ring.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kListThreads = 1024;
constexpr int kMostExperts = 2047;

// Sums before each thread, and of all in *total.
__device__ int SumBefore(int mine, int* total) {
  __shared__ int warps[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  int sum = mine;
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // the call before has been read
  if (lane == kWarp - 1) warps[warp] = sum;
  __syncthreads();
  int before = 0, all = 0;
  for (int i = 0; i < kListThreads / kWarp; ++i) {
    before += i < warp ? warps[i] : 0;
    all += warps[i];
  }
  *total = all;
  return before + sum - mine;
}

struct ListArgs {
  const int32_t* chosen = nullptr;
  int slots = 0, rows = 0, experts = 0, tile_rows = 0;
  ExpertLists lists;
};

__device__ int ExpertOf(const ListArgs& p, int slot) {
  return min(max(p.chosen[slot], 0), p.experts - 1);
}

// Where an expert's tiles begin.
struct ListPlace {
  int slots = 0, tiles = 0, groups = 0;
};

// As many tiles as it takes, of even width: a multiple of 8.
__device__ void WriteTiles(const ListArgs& p, int expert, int count, const ListPlace& place) {
  const int tiles = (count + p.tile_rows - 1) / p.tile_rows;
  if (tiles == 0) return;
  const int step = min(p.tile_rows, ((count + tiles - 1) / tiles + 7) / 8 * 8);
  for (int i = 0; i < tiles; ++i) {
    const int done = i * step;
    p.lists.tiles[place.tiles + i] = {expert, place.slots + done, min(step, count - done),
                                      place.groups + done / 8};
  }
}

// One block.
__global__ void __launch_bounds__(kListThreads) ListKernel(const ListArgs p) {
  __shared__ int counts[kMostExperts + 1], next[kMostExperts + 1];
  LetNextKernelStart();
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < p.experts; e += kListThreads) counts[e] = 0;
  __syncthreads();
  for (int s = thread; s < p.slots; s += kListThreads) atomicAdd(&counts[ExpertOf(p, s)], 1);
  __syncthreads();
  if (thread == 0) WriteTiles(p, p.experts, p.rows, {p.slots, 0, 0});
  ListPlace before{0, (p.rows + p.tile_rows - 1) / p.tile_rows, (p.rows + 7) / 8};
  for (int base = 0; base < p.experts; base += kListThreads) {
    const int e = base + thread;
    const int count = e < p.experts ? counts[e] : 0;
    ListPlace all;
    const ListPlace mine{
        before.slots + SumBefore(count, &all.slots),
        before.tiles + SumBefore((count + p.tile_rows - 1) / p.tile_rows, &all.tiles),
        before.groups + SumBefore((count + 7) / 8, &all.groups)};
    if (e < p.experts) next[e] = mine.slots;
    WriteTiles(p, e, count, mine);
    before = {before.slots + all.slots, before.tiles + all.tiles, before.groups + all.groups};
  }
  if (thread == 0) *p.lists.tiles_n = before.tiles;
  __syncthreads();
  for (int s = thread; s < p.slots; s += kListThreads) {
    p.lists.slots[atomicAdd(&next[ExpertOf(p, s)], 1)] = s;
  }
  for (int r = thread; r < p.rows; r += kListThreads) p.lists.slots[p.slots + r] = p.slots + r;
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
                 int tile_rows, const ExpertLists& lists) {
  TW_CHECK(experts > 0 && experts <= kMostExperts);
  const ListArgs args{chosen,
                      static_cast<int>(rows * topk),
                      static_cast<int>(rows),
                      static_cast<int>(experts),
                      tile_rows,
                      lists};
  ListKernel<<<1, kListThreads, 0, queue->stream()>>>(args);
}

const FeedForward* ExpertTable(Queue* queue, const ExpertsParams& p) {
  // Tables stay for the life of the process: a model's own are few and come in every step.
  static std::mutex mutex;
  static auto* tables = new std::unordered_map<const void*, Table>();
  const std::lock_guard lock(mutex);
  const size_t bytes = p.experts.size() * sizeof(FeedForward);
  std::vector<char> now(bytes + sizeof(FeedForward));
  std::memcpy(now.data(), p.experts.data(), bytes);
  std::memcpy(now.data() + bytes, &p.shared, sizeof(FeedForward));
  Table& table = (*tables)[p.experts.data()];
  if (table.host == now) return table.device;
  // Kernels under way, of any queue, may still read the old one.
  queue->Note(cudaDeviceSynchronize());
  if (table.host.size() != now.size()) {
    queue->Note(cudaFree(table.device));
    queue->Note(cudaMalloc(reinterpret_cast<void**>(&table.device), now.size()));
  }
  queue->Note(cudaMemcpy(table.device, now.data(), now.size(), cudaMemcpyHostToDevice));
  table.host = std::move(now);
  return table.device;
}

}  // namespace thalweg::kernels::cuda
