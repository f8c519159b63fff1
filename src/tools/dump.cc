#include "tools/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "checkpoint/safetensors.h"
#include "tools/forward_order.h"

namespace thalweg::tools {
namespace {

// Copies what it sees.
class CopyProbe : public model::Probe {
 public:
  CopyProbe(const DumpFilter& filter, int layers) : filter_(filter), layers_(layers) {}

  bool Wants(int layer, std::string_view point) const override {
    const auto& layers = filter_.layers;
    const auto& points = filter_.points;
    // The rows that a forward makes for the draft stages are no points of the target.
    if (layer > layers_ || (layer == layers_ && !IsWholeForward(point))) return false;
    return (layers.empty() || std::find(layers.begin(), layers.end(), layer) != layers.end()) &&
           (points.empty() || std::find(points.begin(), points.end(), point) != points.end());
  }

  void See(int layer, std::string_view point, const tensor::MutableView& view) override {
    const int64_t bytes = tensor::View(view).bytes();
    std::vector<std::byte>& copy = data_.emplace_back(view.data, view.data + bytes);
    tensors_.push_back({fmt::format("{}/{}", layer, point), {view.dtype, view.shape, copy.data()}});
  }

  std::span<const checkpoint::NamedTensor> tensors() const { return tensors_; }

 private:
  static bool IsWholeForward(std::string_view point) {
    return point == model::point::kTaps || point == model::point::kLogits;
  }

  const DumpFilter& filter_;
  const int layers_;
  std::deque<std::vector<std::byte>> data_;  // stays where it is while it grows
  std::vector<checkpoint::NamedTensor> tensors_;
};

Status CheckFilter(const DumpFilter& filter, int layers) {
  for (const std::string& name : filter.points) {
    if (!IsForwardPoint(name))
      return base::InvalidArgument(
          fmt::format("there is no point \"{}\"; known points: {}", name, ForwardPointNames()));
  }
  for (const int layer : filter.layers) {
    if (layer < 0 || layer > layers)
      return base::OutOfRange(fmt::format("layer {} is not within 0..{} ({} holds taps and logits)",
                                          layer, layers, layers));
  }
  return {};
}

}  // namespace

Result<int64_t> Dump(model::Model& model, std::span<const int32_t> ids, const DumpFilter& filter,
                     const std::filesystem::path& out) {
  const auto layers = static_cast<int>(model.config().num_hidden_layers);
  TW_TRY(CheckFilter(filter, layers));
  TW_ASSIGN(const kvpool::SequenceId sequence, model.pool().Open());
  const model::Chunk chunk{
      .sequence = sequence, .tokens = ids, .image = {}, .logits = model::LogitRows::kAll};
  model::StepOutput output;
  CopyProbe probe(filter, layers);
  const Status status = model.Step({&chunk, 1}, &output, &probe);
  model.pool().Close(sequence);
  TW_TRY(status);
  if (probe.tensors().empty())
    return base::InvalidArgument(
        "the filter leaves nothing to write: no such point in these layers");
  TW_TRY(checkpoint::WriteSafetensors(out, probe.tensors()));
  return static_cast<int64_t>(probe.tensors().size());
}

}  // namespace thalweg::tools
