#include "tools/bench/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/machine.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/clock.h"
#include "tools/bench/op.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kColdBytes = int64_t{256} << 20;  // far more than caches hold
constexpr std::string_view kLinear = "linear";

bool Matches(const OpEntry& entry, std::string_view wanted) {
  return wanted == "all" || entry.name == wanted ||
         (wanted == kLinear && entry.name.starts_with("linear_"));
}

Result<std::vector<OpEntry>> ChooseOps(const std::string& wanted, bool matrix) {
  std::vector<OpEntry> chosen;
  bool known = false;
  for (const OpEntry& entry : AllOps()) {
    if (!Matches(entry, wanted)) continue;
    known = true;
    if (!matrix || entry.takes_matrix) chosen.push_back(entry);
  }
  if (!known) {
    return base::InvalidArgument(
        fmt::format("unknown op \"{}\": one of {}", wanted, fmt::join(KernelBenchNames(), ", ")));
  }
  if (chosen.empty()) {
    return base::InvalidArgument(
        fmt::format("{} is no single matrix product: name a model's shape, not KxN", wanted));
  }
  return chosen;
}

struct Rig {
  const OpContext& context;
  const KernelBenchOptions& options;
  const ReadGauge& gauge;
  const Peaks& peaks;
};

// The fastest call of a round, and what memory gave around it.
struct Round {
  double seconds = 0;
  double read_gb_s = 0;
};

// Of some rounds, the one with the median product of both, which is the median share of memory:
// what a machine's memory gives can double from one second to the next.
Round TypicalRound(const Rig& rig, const PreparedOp& prepared) {
  constexpr int kRounds = 5;
  std::array<Round, kRounds> rounds;
  double before = rig.gauge.GbPerSecond();
  for (Round& round : rounds) {
    round.seconds = FastestSeconds(rig.options.seconds / kRounds, prepared.cycle, prepared.run);
    const double after = rig.gauge.GbPerSecond();
    round.read_gb_s = std::max(before, after);
    before = after;
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end(),
                   [](const Round& a, const Round& b) {
                     return a.seconds * a.read_gb_s < b.seconds * b.read_gb_s;
                   });
  return rounds[kRounds / 2];
}

KernelFigure Measure(const Rig& rig, std::string_view op, const OpBench& bench, int64_t rows) {
  const PreparedOp prepared = bench.prepare(rows);
  const auto [seconds, read_gb_s] = TypicalRound(rig, prepared);
  KernelFigure figure{.op = std::string(op),
                      .shape = bench.shape,
                      .rows = rows,
                      .numerics = NumericsName(rig.context.ops.numerics),
                      .threads = rig.context.stream.team->size(),
                      .seconds = seconds,
                      .gb_per_s = prepared.cost.bytes / seconds / 1e9,
                      .gflop_per_s = prepared.cost.flops / seconds / 1e9,
                      .limit_gb_per_s = read_gb_s,
                      .limit_gflop_per_s = rig.peaks.Of(bench.peak).gflop_s};
  figure.share = std::max(figure.gb_per_s / figure.limit_gb_per_s,
                          figure.gflop_per_s / figure.limit_gflop_per_s);
  return figure;
}

Status MeasureOp(const Rig& rig, const OpEntry& entry,
                 const std::function<void(const KernelFigure&)>& report) {
  TW_ASSIGN(const OpBenches benches, entry.make(rig.context));
  for (const OpBench& bench : benches) {
    for (const int64_t rows : rig.options.rows) {
      TW_TRY(rig.context.CheckFits(rows * bench.bytes_per_row));
      report(Measure(rig, entry.name, bench, rows));
    }
  }
  return {};
}

int64_t MemoryToUse(const KernelBenchOptions& options) {
  constexpr int64_t kUnknown = int64_t{4} << 30;
  if (options.memory_bytes > 0) return options.memory_bytes;
  const int64_t available = base::FreeMemoryBytes();
  return available > 0 ? available / 2 : kUnknown;
}

}  // namespace

std::string NumericsName(kernels::Numerics numerics) {
  return numerics == kernels::Numerics::kFast ? "fast" : "exact";
}

std::vector<std::string> KernelBenchNames() {
  std::vector<std::string> names = {"all", std::string(kLinear)};
  for (const OpEntry& entry : AllOps()) names.emplace_back(entry.name);
  return names;
}

Status BenchKernel(const kernels::Ops& ops, const base::ThreadTeam& team, const BenchShape& shape,
                   const KernelBenchOptions& options,
                   const std::function<void(const KernelFigure&)>& report) {
  TW_ASSIGN(const std::vector<OpEntry> chosen, ChooseOps(options.op, shape.matrix.has_value()));
  const OpContext context{.ops = ops,
                          .stream = {.team = &team},
                          .config = shape.config,
                          .matrix = shape.matrix,
                          .context = options.context,
                          .experts_per_call = options.experts_per_call,
                          .cold_bytes = shape.cold ? kColdBytes : 0,
                          .memory_bytes = MemoryToUse(options)};
  const ReadGauge gauge(team, options.gauge_bytes);
  const Peaks peaks = MeasurePeaks(team);
  const Rig rig{context, options, gauge, peaks};
  for (const OpEntry& entry : chosen) {
    const Status status = MeasureOp(rig, entry, report);
    const bool lacking = status.code() == base::Code::kUnsupported && options.op == "all";
    if (!status.ok() && !lacking) return status;
  }
  return {};
}

base::Json ToJson(const KernelFigure& f) {
  return {{"op", f.op},
          {"shape", f.shape},
          {"rows", f.rows},
          {"numerics", f.numerics},
          {"threads", f.threads},
          {"seconds", f.seconds},
          {"gb_per_s", f.gb_per_s},
          {"gflop_per_s", f.gflop_per_s},
          {"limit_gb_per_s", f.limit_gb_per_s},
          {"limit_gflop_per_s", f.limit_gflop_per_s},
          {"share", f.share}};
}

std::string TableHeader() {
  return fmt::format("{:<15} {:<44} {:>5} {:>12} {:>8} {:>9} {:>12} {:>13} {:>6}", "op", "shape",
                     "rows", "us", "GB/s", "GFLOP/s", "limit GB/s", "limit GFLOP/s", "share");
}

std::string TableRow(const KernelFigure& f) {
  return fmt::format("{:<15} {:<44} {:>5} {:>12.2f} {:>8.2f} {:>9.1f} {:>12.1f} {:>13.0f} {:>6.2f}",
                     f.op, f.shape, f.rows, f.seconds * 1e6, f.gb_per_s, f.gflop_per_s,
                     f.limit_gb_per_s, f.limit_gflop_per_s, f.share);
}

}  // namespace thalweg::tools::bench
