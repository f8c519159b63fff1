#include "tools/bench_trace.h"

#include <algorithm>

#include "base/check.h"
#include "tools/bench_clock.h"

namespace thalweg::tools::bench {
namespace {

OpTrace* active = nullptr;

// Runs an entry of the traced table and notes its time under `op`.
template <typename Params>
void Timed(std::string_view op, void (*body)(const Params&), const Params& params) {
  active->BeginOp(op);
  const auto begin = std::chrono::steady_clock::now();
  body(params);
  active->EndOp(op, SecondsSince(begin));
}

#define TW_TIMED(entry, Params)                                     \
  void Timed_##entry(const kernels::Params& params) {               \
    Timed<kernels::Params>(#entry, active->traced().entry, params); \
  }
TW_TIMED(embed, EmbedParams)
TW_TIMED(hyper_finish, HyperFinishParams)
TW_TIMED(hyper_predict, HyperPredictParams)
TW_TIMED(tap, TapParams)
TW_TIMED(grouped_linear, GroupedLinearParams)
TW_TIMED(norm, NormParams)
TW_TIMED(window_rows, WindowRowsParams)
TW_TIMED(pool, PoolParams)
TW_TIMED(store_rows, StoreRowsParams)
TW_TIMED(index_select, IndexSelectParams)
TW_TIMED(attention, AttentionParams)
TW_TIMED(gate, GateParams)
TW_TIMED(engram_gather, EngramGatherParams)
TW_TIMED(engram_gate, EngramGateParams)
TW_TIMED(markov, MarkovParams)
#undef TW_TIMED

void TimedLinear(const kernels::LinearParams& params) {
  Timed(active->IsHead(params) ? "head" : "linear", active->traced().linear, params);
}

void TimedCollapse(const kernels::CollapseParams& params) {
  Timed("head", active->traced().collapse, params);  // only the head collapses for good
}

void TimedExperts(const kernels::ExpertsParams& params) {
  active->CountExperts(params);
  Timed("experts", active->traced().experts, params);
}

kernels::Ops TimedTable(const kernels::Ops& traced) {
  kernels::Ops ops = traced;
  ops.embed = Timed_embed;
  ops.hyper_finish = Timed_hyper_finish;
  ops.hyper_predict = Timed_hyper_predict;
  ops.collapse = TimedCollapse;
  ops.tap = Timed_tap;
  ops.linear = TimedLinear;
  ops.grouped_linear = Timed_grouped_linear;
  ops.norm = Timed_norm;
  ops.window_rows = Timed_window_rows;
  ops.pool = Timed_pool;
  ops.store_rows = Timed_store_rows;
  ops.index_select = Timed_index_select;
  ops.attention = Timed_attention;
  ops.gate = Timed_gate;
  ops.experts = TimedExperts;
  ops.engram_gather = Timed_engram_gather;
  ops.engram_gate = Timed_engram_gate;
  ops.markov = Timed_markov;
  return ops;
}

}  // namespace

OpTrace::OpTrace(const kernels::Ops& traced, int64_t head_rows)
    : traced_(traced), timed_(TimedTable(traced)), head_rows_(head_rows) {
  TW_CHECK(active == nullptr);
  active = this;
}

OpTrace::~OpTrace() { active = nullptr; }

void OpTrace::Clear() {
  seconds_.clear();
  experts_.clear();
  sites_ = 0;
}

// A step begins with embed, a layer with its attention site.
void OpTrace::BeginOp(std::string_view op) {
  if (op == "embed") sites_ = 0;
  if (op == "hyper_predict") ++sites_;
}

void OpTrace::EndOp(std::string_view op, double seconds) {
  const int layer = op == "head" ? -1 : (sites_ + 1) / 2 - 1;
  seconds_[{layer, std::string(op)}] += seconds;
}

double OpTrace::LayerSeconds(int layer) const {
  double sum = 0;
  for (const auto& [key, seconds] : seconds_) sum += key.first == layer ? seconds : 0;
  return sum;
}

int64_t OpTrace::experts_read(int layer) const {
  const auto found = experts_.find(layer);
  return found == experts_.end() ? 0 : found->second;
}

void OpTrace::CountExperts(const kernels::ExpertsParams& params) {
  std::vector<int32_t> all(params.chosen, params.chosen + params.rows * params.topk);
  std::sort(all.begin(), all.end());
  experts_[(sites_ + 1) / 2 - 1] += std::unique(all.begin(), all.end()) - all.begin();
}

bool OpTrace::IsHead(const kernels::LinearParams& params) const {
  return params.projections.front().weight.rows == head_rows_;
}

}  // namespace thalweg::tools::bench
