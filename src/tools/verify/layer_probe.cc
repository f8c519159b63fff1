#include "tools/verify/layer_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tensor/formats.h"

namespace thalweg::tools {
namespace {

namespace point = model::point;
using tensor::DType;
using tensor::RowFormat;

}  // namespace

const std::map<std::string_view, LayerProbe::Handler>& LayerProbe::Handlers() {
  static const std::map<std::string_view, Handler> handlers = {
      {point::kEngramRows, &LayerProbe::SeeEngramRows},
      {point::kEngramStreams, &LayerProbe::SeeEngramStreams},
      {point::kAttnPre, &LayerProbe::SeeAttentionCoefficients},
      {point::kAttnPost, &LayerProbe::SeeAttentionCoefficients},
      {point::kAttnComb, &LayerProbe::SeeAttentionCoefficients},
      {point::kAttnIn, &LayerProbe::SeeAttnIn},
      {point::kWindowKv, &LayerProbe::SeeWindowKv},
      {point::kCompressedKv, &LayerProbe::SeeCompressedKv},
      {point::kIndexK, &LayerProbe::SeeIndexK},
      {point::kPendingKv, &LayerProbe::SeePending},
      {point::kPendingScore, &LayerProbe::SeePending},
      {point::kIndexQ, &LayerProbe::SeeIndexQ},
      {point::kIndexW, &LayerProbe::SeeIndexW},
      {point::kCandidates, &LayerProbe::SeeCandidates},
      {point::kIndexSel, &LayerProbe::SeeIndexSel},
      {point::kAttnOut, &LayerProbe::SeeAttnOut},
      {point::kFfnPre, &LayerProbe::SeeFfnCoefficients},
      {point::kFfnPost, &LayerProbe::SeeFfnCoefficients},
      {point::kFfnComb, &LayerProbe::SeeFfnCoefficients},
      {point::kFfnIn, &LayerProbe::SeeFfnIn},
      {point::kRouterExperts, &LayerProbe::SeeRouterExperts},
      {point::kRouterWeights, &LayerProbe::SeeRouterWeights},
      {point::kMoeOut, &LayerProbe::SeeMoeOut},
      {point::kStreamsOut, &LayerProbe::SeeStreamsOut},
      {point::kPreMixOut, &LayerProbe::SeePreMixOut},
      {point::kTaps, &LayerProbe::SeeTaps}};
  return handlers;
}

LayerProbe::LayerProbe(VerifyContext& context, std::string dump, int64_t tokens,
                       kvpool::SequenceId sequence)
    : context_(context),
      dump_(std::move(dump)),
      tokens_(tokens),
      sequence_(sequence),
      plans_(checkpoint::PlanLayers(context.config())),
      streams_rows_(tokens),
      moved_(static_cast<size_t>(tokens), 0) {}

bool LayerProbe::Wants(int layer, std::string_view point) const {
  const auto layers = static_cast<int>(context_.config().num_hidden_layers);
  return status_.ok() && (layer < layers || point == point::kTaps) && Handlers().contains(point);
}

void LayerProbe::See(int layer, std::string_view point, const tensor::MutableView& view) {
  if (!status_.ok()) return;
  status_ = (this->*Handlers().at(point))({layer, point, view});
}

std::string LayerProbe::Entry(int layer, std::string_view point) const {
  return fmt::format("dump/{}/{}/{}", dump_, layer, point);
}

CheckId LayerProbe::Id(int layer, std::string_view point, std::string_view figure) const {
  const std::string name = Entry(layer, point);
  return {.stage = Stage::kLayers,
          .layer = layer,
          .part = std::string(point),
          .name = figure.empty() ? name : fmt::format("{}/{}", name, figure)};
}

Result<tensor::View> LayerProbe::StoredRows(const Seen& seen) const {
  const tensor::Shape& s = seen.view.shape;
  const std::string entry = Entry(seen.layer, seen.point);
  Result<tensor::View> view =
      s.rank() == 2   ? golden().Get(entry, seen.view.dtype, {kAnyDimension, s[1]})
      : s.rank() == 3 ? golden().Get(entry, seen.view.dtype, {kAnyDimension, s[1], s[2]})
                      : golden().Get(entry, seen.view.dtype, {kAnyDimension, s[1], s[2], s[3]});
  if (!view.ok() || (view->shape[0] >= 1 && view->shape[0] <= s[0])) return view;
  return base::InvalidArgument(fmt::format("golden entry {} has {} rows where the model makes {}",
                                           entry, view->shape[0], s[0]));
}

Result<int64_t> LayerProbe::Feed(const Seen& seen) {
  if (!Stored(seen)) return int64_t{0};
  TW_ASSIGN(const tensor::View stored, StoredRows(seen));
  std::memcpy(seen.view.data + (tensor::View(seen.view).bytes() - stored.bytes()), stored.data,
              static_cast<size_t>(stored.bytes()));
  return stored.shape[0];
}

Status LayerProbe::JudgeDense(const Seen& seen, int64_t rows, const DenseLimit& limit,
                              bool leave_out_moved) {
  if (!Stored(seen)) return {};
  TW_ASSIGN(const tensor::View stored, StoredRows(seen));
  rows = std::min(rows, stored.shape[0]);
  if (rows == 0) return {};
  std::vector<uint8_t> leave_out(static_cast<size_t>(rows), 0);
  if (leave_out_moved) std::copy(moved_.end() - rows, moved_.end(), leave_out.begin());
  const auto left_out = std::count(leave_out.begin(), leave_out.end(), uint8_t{1});
  const RowErrors errors =
      CompareRows(LastRows(seen.view, rows), LastRows(stored, rows), leave_out);
  context_.report.AtMost(
      Id(seen.layer, seen.point), errors.relative_rms, limit.relative_rms,
      left_out == 0 ? "" : fmt::format("{} rows with other experts left out", left_out));
  if (!limit.median_row) return {};
  context_.report.AtMost(Id(seen.layer, seen.point, "median_row"), errors.median_row,
                         *limit.median_row);
  return {};
}

Status LayerProbe::JudgeAbsolute(const Seen& seen, int64_t rows, double limit) {
  if (!Stored(seen)) return {};
  TW_ASSIGN(const tensor::View stored, StoredRows(seen));
  rows = std::min(rows, stored.shape[0]);
  if (rows == 0) return {};
  const RowErrors errors = CompareRows(LastRows(seen.view, rows), LastRows(stored, rows));
  context_.report.AtMost(Id(seen.layer, seen.point), errors.max_abs, limit);
  return {};
}

Status LayerProbe::SeeEngramRows(const Seen& seen) {
  const std::string entry = fmt::format("dump/{}/engram_rows", dump_);
  if (!golden().Has(entry)) return {};
  const auto tables = static_cast<int64_t>(context_.config().engram_layer_ids.size());
  const int64_t columns = seen.view.shape[1];
  TW_ASSIGN(const tensor::View stored,
            golden().Get(entry, DType::kI32, {tokens_, tables, columns}));
  int64_t differing = 0;
  for (int64_t i = 0; i < tokens_ * columns; ++i) {
    const int64_t row = i / columns * tables + plan(seen.layer).engram_index;
    differing += seen.view.as<int64_t>()[i] != stored.as<int32_t>()[row * columns + i % columns];
  }
  context_.report.AtMost(Id(seen.layer, seen.point), static_cast<double>(differing), 0);
  return {};
}

Status LayerProbe::SeeEngramStreams(const Seen& seen) {
  TW_TRY(JudgeDense(seen, streams_rows_, context_.limits.streams_out));
  TW_ASSIGN(const int64_t fed, Feed(seen));
  streams_rows_ = std::min(streams_rows_, fed);
  return {};
}

Status LayerProbe::SeeAttentionCoefficients(const Seen& seen) {
  return JudgeAbsolute(seen, streams_rows_, context_.limits.coefficients);
}

Status LayerProbe::SeeAttnIn(const Seen& seen) {
  std::fill(moved_.begin(), moved_.end(), uint8_t{0});
  TW_TRY(JudgeDense(seen, streams_rows_, context_.limits.streams_out));
  TW_ASSIGN(attn_rows_, Feed(seen));
  return {};
}

Status LayerProbe::SeeWindowKv(const Seen& seen) {
  return JudgeCache(seen, attn_rows_, RowFormat::kFp8E8M0);
}

Status LayerProbe::SeeAttnOut(const Seen& seen) {
  return JudgeDense(seen, attn_rows_, context_.limits.attn_out);
}

// The streams behind the attention are not stored: they carry what attn_out may deviate by, which
// the limit of equal streams does not allow for. Engines that round elsewhere get the streams'
// limit.
Status LayerProbe::SeeFfnCoefficients(const Seen& seen) {
  const Limits& limits = context_.limits;
  return JudgeAbsolute(
      seen, std::min(streams_rows_, attn_rows_),
      limits.same_rounding ? limits.coefficients : limits.streams_out.relative_rms);
}

Status LayerProbe::SeeFfnIn(const Seen& seen) {
  TW_TRY(JudgeDense(seen, std::min(streams_rows_, attn_rows_), context_.limits.streams_out));
  TW_ASSIGN(ffn_rows_, Feed(seen));
  return {};
}

Status LayerProbe::SeeMoeOut(const Seen& seen) {
  return JudgeDense(seen, ffn_rows_, context_.limits.moe_out, /*leave_out_moved=*/true);
}

Status LayerProbe::SeeStreamsOut(const Seen& seen) {
  const int64_t rows = std::min({streams_rows_, attn_rows_, ffn_rows_});
  TW_TRY(JudgeDense(seen, rows, context_.limits.streams_out, /*leave_out_moved=*/true));
  TW_ASSIGN(next_streams_rows_, Feed(seen));
  return {};
}

Status LayerProbe::SeePreMixOut(const Seen& seen) {
  TW_TRY(SeeFfnCoefficients(seen));
  TW_ASSIGN(const int64_t fed, Feed(seen));
  streams_rows_ = std::min(next_streams_rows_, fed);
  return {};
}

}  // namespace thalweg::tools
