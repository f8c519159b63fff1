// Index scores and selection at the released shape on a device: compared with the general kernels,
// and the selection with the codes it was made from; then timed, whole and in parts, beside the
// time that the bytes of the keys take. Rows belong to sequences of their own.
#include <algorithm>
#include <string>

#include "kernels/cuda/bench_kit.cuh"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/index_call.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kHeads = kFastHeads, kWidth = kFastWidth, kTopk = 512, kRope = 64;
constexpr int64_t kContext = 131072, kPageRows = 64, kSequences = 64, kRows = 256;
constexpr int32_t kSmallPage = 4;
constexpr int64_t kCapacity = 2048;
constexpr unsigned kLimitSeconds = 40;
constexpr int kGroupThreads = 128;

struct Batch {
  Batch() {
    pool = Make<uint8_t>(kSequences * kContext * kFastRowBytes);
    query = Make<BF16>(kRows * kHeads * kWidth);
    weight = Make<BF16>(kRows * kHeads);
    selection = Make<int32_t>(kRows * kTopk);
    set_blocks = Make<int32_t>(kRows * kCapacity);
    set_count = Make<int64_t>(kRows);
    FillRows<<<2048, 256>>>(pool, kSequences * kContext * kFastRowBytes, kFastRowBytes, 64, 0xffu,
                            125u, 3u);
    for (int64_t i = 0; i < kContext / kPageRows; ++i) {
      blocks.push_back(static_cast<int32_t>(i * 37 % (kContext / kPageRows)));
    }
    for (int64_t s = 0; s < kSequences; ++s) {
      pages.push_back({pool + s * kContext * kFastRowBytes, blocks.data(), kPageRows,
                       kPageRows * kFastRowBytes, kFastRowBytes, kWidth, RowFormat::kFp4E8M0,
                       kContext / kPageRows});
    }
    // The same keys by pages that the fast kernels do not take.
    for (const int32_t block : blocks) {
      for (int32_t i = 0; i < kPageRows / kSmallPage; ++i) {
        small_blocks.push_back(block * (kPageRows / kSmallPage) + i);
      }
    }
    for (PagedRows rows : pages) {
      rows.blocks = small_blocks.data();
      rows.rows_per_block = kSmallPage;
      rows.block_bytes = kSmallPage * kFastRowBytes;
      rows.blocks_count = kContext / kSmallPage;
      small_pages.push_back(rows);
    }
    cos.assign(kRows * kRope / 2, 0.6f);
    sin.assign(kRows * kRope / 2, 0.8f);
    Reset();
  }

  // Queries as they come: index_select leaves them rotated and quantised.
  void Reset() const {
    FillHalves<<<256, 256>>>(query, kRows * kHeads * kWidth, 1.0f);
    FillHalves<<<1, 256>>>(weight, kRows * kHeads, 1.0f);
    Check(cudaDeviceSynchronize(), "reset");
  }

  // Every row its own sequence, or all of them the first.
  void Place(int64_t entries, bool own, bool ragged) {
    constexpr int64_t kSome[] = {131072, 1, 15, 16, 17, 600, 8191, 8192, 8193, 20001, 70000};
    sequence.clear();
    visible.clear();
    for (int64_t r = 0; r < kRows; ++r) {
      sequence.push_back(own ? static_cast<int32_t>(r % kSequences) : 0);
      visible.push_back(ragged ? kSome[r % 11] : own ? entries : entries - kRows + 1 + r);
    }
  }

  IndexSelectParams Params(int64_t first, int64_t rows) {
    IndexSelectParams p;
    p.rows = rows;
    p.heads = kHeads;
    p.width = kWidth;
    p.topk = kTopk;
    p.query = query + first * kHeads * kWidth;
    p.head_weight = weight + first * kHeads;
    p.weight_scale = 0.015625f;
    p.rotation = {cos.data(), sin.data(), kRope};
    p.keys = pages.data();
    p.row_sequence = sequence.data() + first;
    p.visible = visible.data() + first;
    p.selection = selection + first * kTopk;
    sets = {set_blocks + first * kCapacity, set_count + first, kCapacity, kRunKeys};
    return p;
  }

  uint8_t* pool;
  BF16 *query, *weight;
  int32_t *selection, *set_blocks;
  int64_t* set_count;
  CandidateSets sets;
  std::vector<int32_t> blocks, small_blocks, sequence;
  std::vector<int64_t> visible;
  std::vector<float> cos, sin;
  std::vector<PagedRows> pages, small_pages;
};

template <typename T>
std::vector<T> Get(const T* from, int64_t count) {
  std::vector<T> out(static_cast<size_t>(count));
  Check(cudaDeviceSynchronize(), "synchronize");
  Check(cudaMemcpy(out.data(), from, out.size() * sizeof(T), cudaMemcpyDeviceToHost), "get");
  return out;
}

// The best of codes as the host finds them, ascending.
std::vector<int32_t> Best(const std::vector<uint32_t>& codes, int64_t count) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] != 0) order.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return codes[static_cast<size_t>(a)] > codes[static_cast<size_t>(b)];
  });
  if (static_cast<int64_t>(order.size()) > count) order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

struct Outcome {
  std::vector<int32_t> selection, blocks;
  std::vector<int64_t> counts;
};

enum class Way { kGeneral, kFast };

Outcome Select(Batch* batch, Queue* queue, int64_t rows, Way way, bool restricted) {
  batch->Reset();
  Check(cudaMemset(batch->selection, 0x7f, static_cast<size_t>(rows * kTopk) * 4), "clear");
  Check(cudaDeviceSynchronize(), "clear");
  IndexSelectParams p = batch->Params(0, rows);
  if (restricted) {
    p.restrict_to = &batch->sets;
  } else {
    p.make_candidates = &batch->sets;
  }
  if (way == Way::kGeneral) {
    p.keys = batch->small_pages.data();
    IndexSelect(p);
  } else {
    FastSelect(p, queue);
    Check(queue->Synchronize(), "select");
  }
  return {Get(batch->selection, rows * kTopk), Get(batch->set_blocks, rows * kCapacity),
          Get(batch->set_count, rows)};
}

int64_t Differences(const std::vector<int32_t>& a, const std::vector<int32_t>& b, int64_t width) {
  int64_t different = 0;
  for (size_t r = 0; r < a.size(); r += static_cast<size_t>(width)) {
    const auto x = a.begin() + static_cast<std::ptrdiff_t>(r);
    const auto y = b.begin() + static_cast<std::ptrdiff_t>(r);
    std::vector<int32_t> left(x, x + width), right(y, y + width), both;
    std::erase_if(left, [](int32_t i) { return i < 0; });
    std::erase_if(right, [](int32_t i) { return i < 0; });
    std::set_intersection(left.begin(), left.end(), right.begin(), right.end(),
                          std::back_inserter(both));
    different += static_cast<int64_t>(left.size() + right.size() - 2 * both.size());
  }
  return different;
}

// The selections of the last call against its codes.
void CheckSelection(Batch* batch, Queue* queue, int64_t rows, const Outcome& got) {
  const int64_t longest = *std::max_element(batch->visible.begin(), batch->visible.begin() + rows);
  const int64_t stride = StrideOf(longest);
  IndexSelectParams p = batch->Params(0, rows);
  p.make_candidates = &batch->sets;
  FastScratch scratch;
  LayOut(p, rows, stride, static_cast<char*>(queue->Scratch(1)), &scratch);
  const uint16_t* codes = scratch.codes;
  int64_t wrong = 0, wrong_blocks = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t visible = batch->visible[static_cast<size_t>(r)];
    const std::vector<uint16_t> row = Get(codes + r * stride, visible);
    std::vector<int32_t> want = Best({row.begin(), row.end()}, kTopk);
    want.resize(kTopk, -1);
    wrong += std::equal(want.begin(), want.end(), got.selection.begin() + r * kTopk) ? 0 : 1;
    const int64_t blocks = (visible + kRunKeys - 1) / kRunKeys;
    const int64_t count = got.counts[static_cast<size_t>(r)];
    if (blocks <= kCapacity) {
      wrong_blocks += count == -1 ? 0 : 1;
      continue;
    }
    std::vector<uint32_t> best(static_cast<size_t>(blocks));
    for (int64_t i = 0; i < visible; ++i) {
      uint32_t& block = best[static_cast<size_t>(i / kRunKeys)];
      block = std::max<uint32_t>(block, row[static_cast<size_t>(i)]);
    }
    best.back() = 0xffff;
    const std::vector<int32_t> chosen = Best(best, kCapacity);
    const bool same = count == static_cast<int64_t>(chosen.size()) &&
                      std::equal(chosen.begin(), chosen.end(), got.blocks.begin() + r * kCapacity);
    wrong_blocks += same ? 0 : 1;
  }
  fmt::print("  of the codes' best: {} of {} rows wrong, {} candidate sets wrong\n", wrong, rows,
             wrong_blocks);
}

// Exact sums of a group of 32 channels, from the codes of keys and queries.
__global__ void ExactGroups(const uint8_t* keys, QueryCodes queries, float* out) {
  const int key = static_cast<int>(blockIdx.x), head = static_cast<int>(threadIdx.x) % kFastHeads;
  const int g = static_cast<int>(threadIdx.x) / kFastHeads;
  const uint8_t* row = keys + static_cast<int64_t>(key) * kFastRowBytes;
  float sum = 0;
  for (int c = g * 32; c < g * 32 + 32; ++c) {
    const uint32_t code = c % 2 == 0 ? row[c / 2] & 15u : row[c / 2] >> 4u;
    sum += FromE2M1(code) * 0x1p-6f * FromE4M3(queries.codes[QueryCodeOffset(head, c)]);
  }
  out[(static_cast<int64_t>(key) * kCodeGroups + g) * kFastHeads + head] = sum;
}

// The same by the matrix unit; 64 keys a block.
__global__ void CodeGroups(const uint8_t* keys, QueryCodes queries, float* out) {
#ifdef THALWEG_WGMMA
  __shared__ alignas(1024) uint8_t image[kQueryCodeBytes];
  for (int i = static_cast<int>(threadIdx.x); i < kQueryCodeBytes; i += kGroupThreads) {
    image[i] = queries.codes[i];
  }
  PublishShared();
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTileRows + warp * kFastKeys;
  CodeWords words;
  words.Load(keys + first * kFastRowBytes, lane);
  CodeOperands operands;
  operands.Make(words);
  for (int g = 0; g < kCodeGroups; ++g) {
    float part[16];
    BeginProducts();
    CodeStep(part, operands.a[g], KeysDescriptor(image) + static_cast<uint64_t>(g) * 2);
    CommitProducts();
    WaitProducts<0>();
    HoldSums(part);
    for (int i = 0; i < 16; ++i) {
      const int64_t key = first + lane / 4 + i / 2 % 2 * 8;
      out[(key * kCodeGroups + g) * kFastHeads + i / 4 * 8 + lane % 4 * 2 + i % 2] = part[i];
    }
  }
#endif
}

// Whether groups' sums in FP8 are exact: of random keys, and of the largest there are.
void CheckExact(Batch* batch, Queue* queue) {
  constexpr int64_t kKeys = 65536;
  batch->Reset();
  batch->Place(1000, true, false);
  const QueryCodes codes = {Make<uint8_t>(kRows * kQueryCodeBytes),
                            Make<uint32_t>(kRows * kWeightWords)};
  PrepareQueryCodes(batch->Params(0, 4), nullptr, codes, queue);
  Check(queue->Synchronize(), "queries");
  float *want = Make<float>(kKeys * kCodeGroups * kFastHeads),
        *got = Make<float>(kKeys * kCodeGroups * kFastHeads);
  for (int round = 0; round < 5; ++round) {
    auto* keys = Make<uint8_t>(kKeys * kFastRowBytes);
    const uint32_t mask = round == 4 ? 0x88u : 0xffu;
    FillRows<<<256, 256>>>(keys, kKeys * kFastRowBytes, kFastRowBytes, 64, mask, 125u, 3u);
    if (round == 4) Check(cudaMemset(keys, 0x77, kKeys / 2 * kFastRowBytes), "largest");
    QueryCodes row = {codes.codes + round % 4 * kQueryCodeBytes, codes.weights};
    if (round >= 3) {  // +-6 times 2^6, or all of one sign
      const std::vector<uint8_t> image(kQueryCodeBytes, round == 3 ? 0x7c : 0xfc);
      Check(cudaMemcpy(row.codes, image.data(), image.size(), cudaMemcpyHostToDevice), "image");
    }
    ExactGroups<<<kKeys, kCodeGroups * kFastHeads>>>(keys, row, want);
    CodeGroups<<<kKeys / kTileRows, kGroupThreads>>>(keys, row, got);
    const std::vector<float> x = Get(want, kKeys * kCodeGroups * kFastHeads);
    const std::vector<float> y = Get(got, kKeys * kCodeGroups * kFastHeads);
    int64_t wrong = 0;
    float largest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      wrong += x[i] == y[i] ? 0 : 1;
      largest = std::max(largest, std::abs(x[i]));
    }
    fmt::print("FP8 groups, round {}: {} of {} sums not exact; largest {}; first {} {}\n", round,
               wrong, x.size(), largest, x[5], y[5]);
    cudaFree(keys);
  }
  cudaFree(want);
  cudaFree(got);
}

// The scores by codes beside those by halves, and in other arrangements.
void CheckCodes(Batch* batch, Queue* queue, int64_t rows) {
  const int64_t longest = *std::max_element(batch->visible.begin(), batch->visible.begin() + rows);
  const int64_t stride = StrideOf(longest);
  batch->Reset();
  IndexSelectParams p = batch->Params(0, rows);
  FastScratch scratch;
  const int64_t bytes = LayOut(p, rows, stride, nullptr, &scratch);
  LayOut(p, rows, stride, static_cast<char*>(queue->Scratch(bytes)), &scratch);
  PrepareQueryCodes(p, scratch.done, scratch.queries, queue);
  ScoreJob job = StageScores(queue, p, stride);
  job.codes = scratch.codes;
  job.best = scratch.best;
  const auto made = TilesOf(batch->sequence.data(), 0, rows, kFastTileRows);
  job.tiles = queue->Stage(made.data(), static_cast<int64_t>(made.size()));
  const auto tiles = static_cast<int64_t>(made.size());
  ScoreJob single = job;
  single.tiles = nullptr;
  std::vector<std::vector<uint16_t>> codes;
  for (int way = 0; way < 5; ++way) {
    Check(cudaMemset(scratch.codes, 0, static_cast<size_t>(rows * stride) * 2), "clear");
    Check(cudaDeviceSynchronize(), "clear");
    if (way == 0) LaunchFastScores(single, rows, queue);
    if (way == 1) LaunchCodeScores(job, scratch.queries, tiles, kFastTileRows, queue);
    if (way == 2) LaunchCodeScores(job, scratch.queries, tiles, kFastTileRows, queue, 1);
    if (way == 3) LaunchCodeScores(single, scratch.queries, rows, 1, queue);
    if (way == 4) LaunchCodeScores(single, scratch.queries, rows, 1, queue, 1);
    Check(cudaStreamSynchronize(queue->plain_stream()), "codes");
    codes.push_back(Get(scratch.codes, rows * stride));
  }
  int64_t other = 0, most = 0, all = 0;
  for (size_t i = 0; i < codes[0].size(); ++i) {
    const auto d = static_cast<int64_t>(codes[0][i]) - codes[1][i];
    other += d != 0 ? 1 : 0;
    all += codes[0][i] != 0 ? 1 : 0;
    most = std::max(most, d < 0 ? -d : d);
  }
  fmt::print("  by codes: {} of {} scores differ from those by halves, by {} steps at most; ways:",
             other, all, most);
  for (size_t i = 2; i < codes.size(); ++i) {
    fmt::print(" {}", codes[i] == codes[1] ? "the same" : "OTHERS");
  }
  fmt::print("\n");
}

void Compare(Batch* batch, Queue* queue, const char* name, int64_t rows, bool own, bool ragged) {
  batch->Place(20000, own, ragged);
  const Outcome want = Select(batch, queue, rows, Way::kGeneral, false);
  const Outcome got = Select(batch, queue, rows, Way::kFast, false);
  fmt::print("{:<22} rows {:>3}: {} entries and {} blocks differ from the general kernel\n", name,
             rows, Differences(want.selection, got.selection, kTopk),
             Differences(want.blocks, got.blocks, kCapacity));
  CheckSelection(batch, queue, rows, got);
  CheckCodes(batch, queue, rows);
  // Inside the candidates just made; then each row alone.
  const Outcome narrow = Select(batch, queue, rows, Way::kFast, true);
  const Outcome narrow_want = Select(batch, queue, rows, Way::kGeneral, true);
  batch->Reset();
  for (int64_t r = 0; r < rows; ++r) {
    IndexSelectParams p = batch->Params(r, 1);
    p.make_candidates = &batch->sets;
    FastSelect(p, queue);
  }
  Check(queue->Synchronize(), "alone");
  const bool same = Get(batch->selection, rows * kTopk) == got.selection;
  fmt::print("  inside candidates: {} entries differ; alone: {}\n",
             Differences(narrow_want.selection, narrow.selection, kTopk),
             same ? "the same" : "OTHERS");
}

struct Case {
  const char* name;
  int64_t rows, entries;
  bool own, makes, reads;
};

// Whole, and parts of it (queries; scores; selection; candidates), in microseconds.
void TimeCase(Batch* batch, Queue* queue, const Case& c, double copy_rate) {
  constexpr int kCalls = 8;
  batch->Place(c.entries, c.own, false);
  IndexSelectParams p = batch->Params(0, c.rows);
  p.weight_scale = 1;  // calls scale again and again
  if (c.reads) {       // candidates of the same context
    IndexSelectParams makes = p;
    makes.make_candidates = &batch->sets;
    FastSelect(makes, queue);
    p.restrict_to = &batch->sets;
  }
  if (c.makes) p.make_candidates = &batch->sets;
  const int64_t stride = StrideOf(c.entries);
  FastScratch scratch;
  auto* memory = static_cast<char*>(queue->Scratch(LayOut(p, c.rows, stride, nullptr, &scratch)));
  LayOut(p, c.rows, stride, memory, &scratch);
  p.row_sequence = queue->Stage(p.row_sequence, c.rows);
  p.visible = queue->Stage(p.visible, c.rows);
  p.most_visible = c.entries;
  p.rotation.cos = queue->Stage(p.rotation.cos, c.rows * kRope / 2);
  p.rotation.sin = queue->Stage(p.rotation.sin, c.rows * kRope / 2);
  p.keys = StagePages(queue, p.keys, kSequences);
  ScoreJob job = StageScores(queue, p, stride);
  job.codes = scratch.codes;
  job.best = scratch.best;
  int64_t tiles = c.rows, largest = 1;
  if (!c.own) {
    const auto made = TilesOf(batch->sequence.data(), 0, c.rows, kFastTileRows);
    tiles = static_cast<int64_t>(made.size());
    largest = std::min<int64_t>(c.rows, kFastTileRows);
    job.tiles = queue->Stage(made.data(), tiles);
  }
  const auto coded = [&](int) { PrepareQueryCodes(p, scratch.done, scratch.queries, queue); };
  const auto scores = [&](int waves) {
    return TimeCalls(queue, kCalls, [&](int) {
      LaunchCodeScores(job, scratch.queries, tiles, largest, queue, waves);
    });
  };
  const auto selects = [&](int) {
    LaunchSelections(job, c.rows, c.makes ? &batch->sets : nullptr, scratch, queue);
  };
  const double whole = TimeCalls(queue, kCalls, [&](int i) {
    coded(i);
    LaunchCodeScores(job, scratch.queries, tiles, largest, queue);
    selects(i);
  });
  const int64_t read = c.reads ? std::min(c.entries, kCapacity * kRunKeys) : c.entries;
  const int64_t sequences = c.own ? std::min(c.rows, kSequences) : 1;
  const double bytes = static_cast<double>(read * kFastRowBytes * sequences);
  fmt::print(
      "{:<20} {:>4} {:>7} {:>8.1f} {:>7.1f} {:>7.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>7.1f} "
      "{:>5.0f}\n",
      c.name, c.rows, c.entries, whole, bytes / copy_rate * 1e-6, TimeCalls(queue, kCalls, coded),
      scores(1), scores(2), scores(4), scores(8), TimeCalls(queue, kCalls, selects),
      static_cast<double>(c.rows * read * kHeads * kWidth * 2) / whole * 1e-6);
  std::fflush(stdout);
  Check(queue->Synchronize(), c.name);
}

int Main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  EndAfter(kLimitSeconds);
  Queue queue;
  Batch batch;
  CheckExact(&batch, &queue);
  Compare(&batch, &queue, "ragged", 22, true, true);
  Compare(&batch, &queue, "one sequence", 12, false, false);
  const double rate = CopyRate();
  fmt::print(
      "copy {:.2f} TB/s\n{:<20} {:>4} {:>7} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} "
      "{:>5}\n",
      rate, "us", "rows", "entries", "whole", "bytes", "coded", "1 wave", "2", "4", "8", "select",
      "TF");
  constexpr Case kCases[] = {{"ratio 1", 1, kContext, true, false, false},
                             {"ratio 1, candidates", 1, kContext, true, true, false},
                             {"ratio 2", 1, kContext / 2, true, false, false},
                             {"inside candidates", 1, kContext, true, false, true},
                             {"8k", 1, 8192, true, false, false},
                             {"verify 6 rows", 6, kContext, false, false, false},
                             {"ratio 1", 8, kContext, true, false, false},
                             {"ratio 1", 64, kContext, true, false, false},
                             {"ratio 1, candidates", 64, kContext, true, true, false},
                             {"ratio 2", 64, kContext / 2, true, false, false},
                             {"inside candidates", 64, kContext, true, false, true},
                             {"prefill", 256, kContext / 2, false, false, false}};
  for (const Case& c : kCases) TimeCase(&batch, &queue, c, rate);
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace
}  // namespace thalweg::kernels::cuda

int main() { return thalweg::kernels::cuda::Main(); }
