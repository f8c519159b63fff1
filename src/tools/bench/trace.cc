#include "tools/bench/trace.h"

#include <algorithm>

#include "base/check.h"
#include "exec/wrapped_ops.h"
#include "tools/bench/clock.h"

namespace thalweg::tools::bench {
namespace {

OpTrace* active = nullptr;

struct TimedEntry {
  static const kernels::Ops& Inner() { return active->traced(); }

  // Runs an entry of the traced table and notes its time under `op`.
  template <typename Params>
  static void Run(std::string_view op, void (*body)(const Params&), const Params& params) {
    if (active->mode() == OpTrace::Mode::kOff) return body(params);
    const std::string_view name = Name(op, params);
    active->BeginOp(name);
    const auto begin = std::chrono::steady_clock::now();
    body(params);
    if (active->mode() == OpTrace::Mode::kWait) active->Wait(params.stream);
    active->EndOp(name, SecondsSince(begin));
  }

 private:
  template <typename Params>
  static std::string_view Name(std::string_view op, const Params&) {
    return op;
  }
  static std::string_view Name(std::string_view op, const kernels::LinearParams& params) {
    return active->IsHead(params) ? "head" : op;
  }
  // Only the head collapses for good.
  static std::string_view Name(std::string_view, const kernels::CollapseParams&) { return "head"; }
  // The shared expert runs by itself where routed ones are those of ranks.
  static std::string_view Name(std::string_view op, const kernels::ExpertsParams& params) {
    if (params.topk == 0) return "shared expert";
    active->CountExperts(params);
    return op;
  }
};

}  // namespace

OpTrace::OpTrace(const kernels::Ops& traced, int64_t head_rows)
    : traced_(traced), timed_(exec::WrapOps<TimedEntry>(traced)), head_rows_(head_rows) {
  TW_CHECK(active == nullptr);
  if (!traced.memory->host) place_ = tensor::Buffer(tensor::kAlignBytes, *traced.memory);
  active = this;
}

void OpTrace::Wait(const tensor::Stream& stream) {
  int32_t read = 0;
  traced_.memory->download(stream, &read, place_.data(), sizeof(read));
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
  std::vector<int32_t> all(static_cast<size_t>(params.rows * params.topk));
  traced_.memory->download(params.stream, all.data(), params.chosen,
                           static_cast<int64_t>(all.size() * sizeof(int32_t)));
  std::sort(all.begin(), all.end());
  experts_[(sites_ + 1) / 2 - 1] += std::unique(all.begin(), all.end()) - all.begin();
}

bool OpTrace::IsHead(const kernels::LinearParams& params) const {
  return params.projections.front().weight.rows == head_rows_;
}

}  // namespace thalweg::tools::bench
