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

void Run::ListBatch() {
  listed.ids = List(batch.ids);
  listed.position = List(batch.position);
  listed.row_sequence = List(batch.row_sequence);
  listed.image = List(batch.image);
  const auto rotation = [&](const Angles& angles) {
    kernels::Rotation r = angles.rotation();
    r.cos = List(r.cos, rows() * r.rope_dim / 2);
    r.sin = List(r.sin, rows() * r.rope_dim / 2);
    return r;
  };
  listed.plain = rotation(batch.plain);
  listed.compressed = rotation(batch.compressed);
}

const tensor::PagedRows* ListRows(const Run& run, std::vector<tensor::PagedRows>* rows) {
  for (tensor::PagedRows& r : *rows) {
    if (r.device_blocks != nullptr) r.blocks = r.device_blocks;
  }
  return run.ListSequences(rows);
}

void FillUpCopies(Run& run, int64_t count, const void* from, int64_t bytes) {
  auto& to = run.lists.copy_to;
  for (auto i = static_cast<int64_t>(to.size()); i < count; ++i) {
    run.lists.copy_from.push_back(from);
    to.push_back(run.ws.move_scratch + i * bytes);
  }
}

void CopyListedRows(Run& run, int64_t bytes) {
  run.ops().copy_rows({.stream = run.stream(),
                       .count = static_cast<int64_t>(run.lists.copy_from.size()),
                       .bytes = bytes,
                       .from = run.List(run.lists.copy_from),
                       .to = run.List(run.lists.copy_to)});
}

}  // namespace thalweg::model
