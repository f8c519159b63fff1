#include "tools/bench/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "base/thread_team.h"
#include "kernels/backends.h"
#include "kernels/stored_bytes.h"
#include "tensor/buffer.h"

namespace thalweg::tools {
namespace {

using kernels::WeightFormat;

constexpr int64_t kColdBytes = int64_t{128} << 20;       // more than the caches hold
constexpr int64_t kBandwidthBytes = int64_t{256} << 20;  // read to measure the memory
constexpr int kBandwidthRounds = 4;
constexpr int64_t kReferenceProducts = int64_t{1} << 28;  // more would take the oracle seconds

struct Candidate {
  std::string name;
  const kernels::Ops* ops;
};

struct Case {
  std::string model;
  WeightFormat format;
  int64_t out, in, rows;
  bool cold;  // weights come from memory, not from a cache
};

struct Row {
  std::string backend;
  Case shape;
  double us, gb_s, share, gflop_s;
};

std::string_view FormatName(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFp8: return "fp8";
    case WeightFormat::kFp4: return "fp4";
    case WeightFormat::kF32: return "f32";
    case WeightFormat::kBF16: break;
  }
  return "bf16";
}

std::vector<Candidate> Candidates() {
  std::vector<Candidate> all = {{"reference", &kernels::ReferenceOps()}};
  for (const kernels::CpuTarget& target : kernels::CpuTargets()) {
    if (target.supported) all.push_back({std::string(target.name), target.ops});
  }
  return all;
}

Result<std::vector<Candidate>> Wanted(const std::string& only) {
  std::vector<Candidate> wanted;
  std::string known;
  for (const Candidate& candidate : Candidates()) {
    if (only.empty() || only == candidate.name) wanted.push_back(candidate);
    known += (known.empty() ? "" : ", ") + candidate.name;
  }
  if (!wanted.empty()) return wanted;
  return base::NotFound(fmt::format("no kernels \"{}\" here; known: {}", only, known));
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto format : {WeightFormat::kFp8, WeightFormat::kFp4, WeightFormat::kBF16}) {
    for (const int64_t rows : {1, 512}) cases.push_back({"nano", format, 256, 256, rows, false});
    for (const int64_t rows : {1, 64})
      cases.push_back({"released", format, 2304, 5120, rows, true});
  }
  return cases;
}

// Seconds of the fastest run of work(round) within a budget; the first run only warms up.
template <typename Work>
double Fastest(double budget_s, const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best_s = 1e9, spent_s = 0;
  work(0);
  for (int64_t round = 1; round == 1 || spent_s < budget_s; ++round) {
    const auto start = Clock::now();
    work(round);
    const double took_s = std::chrono::duration<double>(Clock::now() - start).count();
    best_s = std::min(best_s, took_s);
    spent_s += took_s;
  }
  return best_s;
}

// GB/s at which the team reads memory.
double ReadBandwidth(const base::ThreadTeam& team) {
  tensor::Buffer buffer(kBandwidthBytes);
  const auto* words = buffer.as<uint64_t>();
  const int64_t count = kBandwidthBytes / 8;
  std::vector<uint64_t> sums(static_cast<size_t>(team.size()));
  double best_s = 1e9;
  for (int round = 0; round < kBandwidthRounds; ++round) {
    best_s = std::min(best_s, Fastest(0, [&](int64_t) {
                        team.ParallelFor(team.size(), 1, [&](int64_t begin, int64_t end) {
                          const uint64_t sum =
                              std::accumulate(words + begin * count / team.size(),
                                              words + end * count / team.size(), uint64_t{0});
                          sums[static_cast<size_t>(begin)] += sum;
                        });
                      }));
  }
  TW_CHECK_EQ(sums.front(), uint64_t{0});  // the buffer is zero; the sum keeps the loop alive
  return static_cast<double>(kBandwidthBytes) / best_s / 1e9;
}

// Codes that repeat after 64 KiB, the same in each run; NaN codes are left out.
void FillCodes(WeightFormat format, uint8_t* bytes, int64_t count) {
  std::vector<uint8_t> pattern(1 << 16);
  for (size_t i = 0; i < pattern.size(); i += 4) {
    const uint32_t word =
        base::Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, base::PhiloxKeyOf(1))[0];
    for (size_t b = 0; b < 4; ++b) {
      const auto byte = static_cast<uint8_t>(word >> (8 * b));
      // High bytes of bf16 numbers around one half; e4m3 codes below the NaN.
      const bool high = format == WeightFormat::kBF16 && b % 2 == 1;
      pattern[i + b] =
          high ? static_cast<uint8_t>(0x3e | (byte & 0x80u))
               : static_cast<uint8_t>(byte & (format == WeightFormat::kFp8 ? 0xf7u : 0xffu));
    }
  }
  for (int64_t at = 0; at < count; at += static_cast<int64_t>(pattern.size())) {
    const auto n = std::min(count - at, static_cast<int64_t>(pattern.size()));
    std::copy_n(pattern.begin(), n, bytes + at);
  }
}

Row Measure(const Candidate& candidate, const Case& c, const BenchKernelsOptions& options,
            const base::ThreadTeam& team, double bandwidth) {
  const int64_t bytes = kernels::CodeBytes(c.format, c.out, c.in);
  const int64_t copies = c.cold ? std::max<int64_t>(1, kColdBytes / bytes) : 1;
  tensor::Buffer codes(copies * bytes), scales(kernels::ScaleBytes(c.format, c.out, c.in));
  FillCodes(c.format, codes.as<uint8_t>(), codes.bytes());
  std::fill_n(scales.as<uint8_t>(), scales.bytes(), uint8_t{120});
  std::vector<kernels::BF16> x(static_cast<size_t>(c.rows * c.in), tensor::ToBF16(0.5f));
  std::vector<kernels::BF16> y(static_cast<size_t>(c.rows * c.out));
  const double seconds = Fastest(options.case_seconds, [&](int64_t round) {
    const kernels::Matrix w = {c.format, codes.data() + round % copies * bytes,
                               scales.as<uint8_t>(), c.out, c.in};
    const kernels::Projection projection = {w, y.data(), nullptr};
    candidate.ops->linear({{&team}, c.rows, c.in, x.data(), {&projection, 1}});
  });
  const double gb_s =
      static_cast<double>(bytes + kernels::ScaleBytes(c.format, c.out, c.in)) / seconds / 1e9;
  const double operations = 2.0 * static_cast<double>(c.rows * c.out * c.in);
  return {candidate.name, c, seconds * 1e6, gb_s, gb_s / bandwidth, operations / seconds / 1e9};
}

void PrintTable(const std::vector<Row>& rows, double bandwidth, int threads) {
  fmt::print("threads {}, memory read {:.1f} GB/s\n", threads, bandwidth);
  fmt::print("{:<10} {:<9} {:<5} {:>11} {:>5} {:>11} {:>8} {:>6} {:>9}\n", "backend", "model", "W",
             "out x in", "rows", "us", "GB/s", "share", "GFLOP/s");
  for (const Row& row : rows) {
    const Case& c = row.shape;
    fmt::print("{:<10} {:<9} {:<5} {:>11} {:>5} {:>11.2f} {:>8.2f} {:>6.2f} {:>9.1f}\n",
               row.backend, c.model, FormatName(c.format), fmt::format("{}x{}", c.out, c.in),
               c.rows, row.us, row.gb_s, row.share, row.gflop_s);
  }
}

void PrintJson(const std::vector<Row>& rows, double bandwidth, int threads) {
  base::Json document = {{"bench", "kernels"},
                         {"threads", threads},
                         {"memory_read_gb_s", bandwidth},
                         {"rows", base::Json::array()}};
  for (const Row& row : rows) {
    const Case& c = row.shape;
    document["rows"].push_back({{"backend", row.backend},
                                {"model", c.model},
                                {"weights", FormatName(c.format)},
                                {"out", c.out},
                                {"in", c.in},
                                {"rows", c.rows},
                                {"us", row.us},
                                {"weights_gb_s", row.gb_s},
                                {"share_of_memory_read", row.share},
                                {"gflop_s", row.gflop_s}});
  }
  fmt::print("{}\n", document.dump(2));
}

}  // namespace

Status BenchKernels(const BenchKernelsOptions& options) {
  TW_ASSIGN(const std::vector<Candidate> candidates, Wanted(options.only));
  const base::ThreadTeam team(options.threads);
  const double bandwidth = ReadBandwidth(team);
  std::vector<Row> rows;
  for (const Candidate& candidate : candidates) {
    for (const Case& c : Cases()) {
      const bool oracle = candidate.name == "reference";
      if (oracle && c.rows * c.out * c.in > kReferenceProducts) continue;
      rows.push_back(Measure(candidate, c, options, team, bandwidth));
    }
  }
  options.json ? PrintJson(rows, bandwidth, team.size()) : PrintTable(rows, bandwidth, team.size());
  return {};
}

}  // namespace thalweg::tools
