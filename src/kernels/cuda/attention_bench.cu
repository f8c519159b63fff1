// Attention at the released shape on a device: each arrangement is compared with the general kernel
// first, then timed; with the bounds of the same run (copies, decoding alone, products alone).
// Rows belong to sequences of their own and choose other entries in each call, so that keys come
// from memory. Ends by itself after a while, should a kernel not.
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/cuda/attention_cluster.cuh"
#include "kernels/cuda/attention_many.cuh"
#include "kernels/cuda/bench_kit.cuh"
#include "kernels/cuda/bodies.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kHeads = 64, kWidth = 512, kWindow = 128, kTopk = 512, kRope = 64;
constexpr int64_t kEntries = 4096, kPageRows = 64, kSequences = 128;
constexpr int64_t kWindowBytes = 528, kSelectedBytes = 288;
constexpr int kSets = 4;  // selections that calls take in turn
constexpr unsigned kLimitSeconds = 25;

// Everything that calls read; ragged rows have short windows and selections.
struct Batch {
  explicit Batch(int64_t most_rows) : most(most_rows) {
    pool = Make<uint8_t>(kSequences * kEntries * kSelectedBytes);
    ring = Make<uint8_t>(kSequences * kWindow * kWindowBytes);
    query = Make<BF16>(most * kHeads * kWidth);
    out = Make<BF16>(most * kHeads * kWidth);
    sink = Make<float>(kHeads);
    FillRows<<<1024, 256>>>(pool, kSequences * kEntries * kSelectedBytes, 288, 256, 0xffu, 0x18u,
                            0x18u);
    FillRows<<<1024, 256>>>(ring, kSequences * kWindow * kWindowBytes, 528, 512, 0xbfu, 121u, 3u);
    FillHalves<<<1024, 256>>>(query, most * kHeads * kWidth, 1.0f);
    const std::vector<float> sinks(kHeads, 0.5f);
    Check(cudaMemcpy(sink, sinks.data(), kHeads * 4, cudaMemcpyHostToDevice), "sink");
    for (int64_t i = 0; i < kEntries / kPageRows; ++i) {
      blocks.push_back(static_cast<int32_t>(i * 37 % (kEntries / kPageRows)));
    }
    for (int64_t s = 0; s < kSequences; ++s) {
      windows.push_back({ring + s * kWindow * kWindowBytes, kWindow, nullptr, int64_t{1} << 40, 0});
      pages.push_back({pool + s * kEntries * kSelectedBytes, blocks.data(), kPageRows,
                       kPageRows * kSelectedBytes, kSelectedBytes, kWidth, RowFormat::kFp4E4M3,
                       kEntries / kPageRows});
    }
    for (int64_t r = 0; r < most; ++r) {
      sequence.push_back(static_cast<int32_t>(r % kSequences));
      for (int64_t i = 0; i < kRope / 2; ++i) {
        const auto angle = static_cast<float>(r * 31 + i * 7) * 0.01f;
        cos.push_back(std::cos(angle));
        sin.push_back(std::sin(angle));
      }
    }
    for (int set = 0; set < kSets; ++set) selections[set] = Make<int32_t>(most * kTopk);
  }

  void Choose(bool ragged) {
    constexpr int64_t kEnds[] = {1000, 0, 3, 63, 64, 65, 126, 127, 128, 5000};
    constexpr int64_t kCounts[] = {512, 1, 0, 63, 64, 65, 511, 300, 128, 512};
    end.clear();
    for (int64_t r = 0; r < most; ++r) end.push_back(ragged ? kEnds[r % 10] : 1000 + r);
    for (int set = 0; set < kSets; ++set) {
      std::vector<int32_t> chosen;
      for (int64_t r = 0; r < most; ++r) {
        const int64_t count = ragged ? kCounts[(r + r / 10) % 10] : kTopk;
        const int64_t offset = (set * 2 + r % 2) % (kEntries / kTopk);
        for (int64_t i = 0; i < kTopk; ++i) {
          const int64_t entry = i * (kEntries / kTopk) + offset;
          chosen.push_back(i < count ? static_cast<int32_t>(entry) : -1);
        }
      }
      Check(cudaMemcpy(selections[set], chosen.data(), chosen.size() * 4, cudaMemcpyHostToDevice),
            "selection");
    }
  }

  AttentionParams Params(int64_t first, int64_t rows, int set) {
    return {{},
            rows,
            kHeads,
            kWidth,
            kWindow,
            query + first * kHeads * kWidth,
            {cos.data() + first * kRope / 2, sin.data() + first * kRope / 2, kRope},
            0.044194173f,
            sink,
            sequence.data() + first,
            end.data() + first,
            windows.data(),
            RowFormat::kFp8E8M0,
            pages.data(),
            selections[set] + first * kTopk,
            kTopk,
            out + first * kHeads * kWidth};
  }

  std::vector<uint16_t> Out(int64_t rows) const {
    std::vector<uint16_t> values(static_cast<size_t>(rows * kHeads * kWidth));
    Check(cudaDeviceSynchronize(), "synchronize");
    Check(cudaMemcpy(values.data(), out, values.size() * 2, cudaMemcpyDeviceToHost), "out");
    Check(cudaMemset(out, 0xff, values.size() * 2), "clear");
    Check(cudaDeviceSynchronize(), "clear");  // the queues' streams do not wait for the default one
    return values;
  }

  int64_t most;
  uint8_t *pool, *ring;
  BF16 *query, *out;
  float* sink;
  int32_t* selections[kSets];
  std::vector<int32_t> blocks, sequence;
  std::vector<int64_t> end;
  std::vector<float> cos, sin;
  std::vector<WindowKeys> windows;
  std::vector<PagedRows> pages;
};

using Launcher = std::function<void(const AttentionJob&, Queue*)>;
struct Arrangement {
  const char* name;
  Launcher launch;
  int64_t most_rows;
  bool whole;
};

template <AttentionPart kPart>
void Many(const AttentionJob& job, Queue* queue) {
  LaunchManyRows<kPart>(job, queue);
}
void Few(const AttentionJob& job, Queue* queue) { LaunchClusterRows(job, queue); }

std::vector<Arrangement> Arrangements() {
  return {{"few", Few, 64, true},
          {"many", Many<AttentionPart::kWhole>, 1 << 20, true},
          {"  decoding alone", Many<AttentionPart::kDecode>, 1 << 20, false},
          {"  products alone", Many<AttentionPart::kProducts>, 1 << 20, false}};
}

float ToFloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}

// How far values are from those wanted: the relative error of the whole and the worst row's.
std::string Difference(const std::vector<uint16_t>& got, const std::vector<uint16_t>& want) {
  double worst = 0, all = 0, norm = 0, largest = 0;
  const size_t width = kHeads * kWidth;
  for (size_t r = 0; r < got.size() / width; ++r) {
    double error = 0, size = 0;
    for (size_t i = r * width; i < (r + 1) * width; ++i) {
      const double d = ToFloat(got[i]) - ToFloat(want[i]);
      error += d * d;
      size += static_cast<double>(ToFloat(want[i])) * ToFloat(want[i]);
      largest = std::max(largest, std::isnan(d) ? 1e30 : std::fabs(d));
    }
    all += error;
    norm += size;
    worst = std::max(worst, std::isnan(error) ? 1e30 : std::sqrt(error / size));
  }
  return fmt::format("relative {:.2e}, worst row {:.2e}, largest {:.2e}", std::sqrt(all / norm),
                     worst, largest);
}

void Compare(Batch* batch, Queue* queue, int64_t rows, bool ragged) {
  batch->Choose(ragged);
  Attention(batch->Params(0, rows, 0));
  const std::vector<uint16_t> want = batch->Out(rows);
  std::vector<uint16_t> first;
  for (const Arrangement& way : Arrangements()) {
    if (!way.whole) continue;
    way.launch(StageJob(batch->Params(0, rows, 0), queue), queue);
    Check(queue->Synchronize(), way.name);
    const std::vector<uint16_t> got = batch->Out(rows);
    if (first.empty()) first = got;
    fmt::print("{:<22} rows {:>4} {} {}{}\n", way.name, rows, ragged ? "ragged" : "full  ",
               Difference(got, want), got == first ? "" : "  OTHER BITS THAN THE FIRST");
  }
  // Rows alone.
  for (int64_t r = 0; r < rows; r += 3) Few(StageJob(batch->Params(r, 1, 0), queue), queue);
  for (int64_t r = 1; r < rows; r += 3) {
    Many<AttentionPart::kWhole>(StageJob(batch->Params(r, 1, 0), queue), queue);
  }
  for (int64_t r = 2; r < rows; r += 3) Few(StageJob(batch->Params(r, 1, 0), queue), queue);
  Check(queue->Synchronize(), "alone");
  fmt::print("alone: {}\n", batch->Out(rows) == first ? "the same bits" : "OTHER BITS");
}

double Time(Batch* batch, Queue* queue, int64_t rows, const Launcher& launch) {
  constexpr int kCalls = 12;
  std::vector<AttentionJob> jobs;
  for (int set = 0; set < kSets; ++set) {
    jobs.push_back(StageJob(batch->Params(0, rows, set), queue));
  }
  return TimeCalls(queue, kCalls,
                   [&](int i) { launch(jobs[static_cast<size_t>(i % kSets)], queue); });
}

void Table(Batch* batch, Queue* queue) {
  batch->Choose(false);
  fmt::print("{:<22}", "us (TFLOP/s)");
  const std::vector<int64_t> counts = {1, 6, 8, 16, 24, 32, 64, 128, 256, 1024};
  for (const int64_t rows : counts) fmt::print("{:>16}", rows);
  fmt::print("\n");
  for (const Arrangement& way : Arrangements()) {
    fmt::print("{:<22}", way.name);
    for (const int64_t rows : counts) {
      if (rows > way.most_rows) {
        fmt::print("{:>16}", "-");
        continue;
      }
      const double us = Time(batch, queue, rows, way.launch);
      const double flops = static_cast<double>(rows) * kHeads * (kWindow + kTopk) * kWidth * 4;
      fmt::print("{:>16}", fmt::format("{:.1f} ({:.0f})", us, flops / us * 1e-6));
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}

int Main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  EndAfter(kLimitSeconds);
  Check(cudaFree(nullptr), "device");
  Queue queue;
  Batch batch(1024);
  Compare(&batch, &queue, 7, false);
  Compare(&batch, &queue, 133, true);
  std::fflush(stdout);
  fmt::print("copy {:.2f} TB/s\n", CopyRate());
  Table(&batch, &queue);
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace
}  // namespace thalweg::kernels::cuda

int main() { return thalweg::kernels::cuda::Main(); }
