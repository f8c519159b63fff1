// What a forward shows to a probe, and rows that move.
#include <algorithm>

#include "model/run.h"
#include "tensor/row_format.h"

namespace thalweg::model {

bool MayChange(std::string_view name) {
  constexpr std::string_view kChangeable[] = {point::kEngramStreams, point::kAttnIn,
                                              point::kIndexSel,      point::kFfnIn,
                                              point::kStreamsOut,    point::kPreMixOut};
  return std::find(std::begin(kChangeable), std::end(kChangeable), name) != std::end(kChangeable);
}

void ObserveInput(const Run& run, int layer, std::string_view name, BF16* rows, BF16* quantised) {
  if (run.probe == nullptr || !run.probe->Wants(layer, name)) return;
  const int64_t hidden = run.config().hidden_size;
  Observe(run, layer, name, rows, {run.rows(), hidden});
  const int64_t bytes = run.rows() * hidden * static_cast<int64_t>(sizeof(BF16));
  HostView from(run, rows, bytes);
  HostView to(run, quantised, bytes);
  for (int64_t r = 0; r < run.rows(); ++r) {
    tensor::RoundTripRow(run.parts.options.activation_format, from.as<BF16>() + r * hidden, hidden,
                         to.as<BF16>() + r * hidden);
  }
  to.Store();
}

float* LogitBuffer::Take(int64_t count, std::vector<float>* host) {
  host->resize(static_cast<size_t>(count));
  if (memory_.host) return host->data();
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  if (device_.bytes() < bytes) device_ = tensor::Buffer(bytes, memory_);
  return device_.as<float>();
}

void LogitBuffer::Fetch(const tensor::Stream& stream, std::vector<float>* host) const {
  if (memory_.host || host->empty()) return;
  memory_.download(stream, host->data(), device_.data(),
                   static_cast<int64_t>(host->size() * sizeof(float)));
}

void CopyListedRows(Run& run, int64_t bytes) {
  run.ops().copy_rows({.stream = run.stream(),
                       .count = static_cast<int64_t>(run.lists.copy_from.size()),
                       .bytes = bytes,
                       .from = run.lists.copy_from.data(),
                       .to = run.lists.copy_to.data()});
}

}  // namespace thalweg::model
