// Layer-local checks of what goes into the caches, and of the draft taps.
#include <fmt/format.h>

#include <algorithm>

#include "tools/verify/layer_probe.h"

namespace thalweg::tools {
namespace {

namespace point = model::point;
using tensor::BF16;
using tensor::DType;
using tensor::RowFormat;

int OwnerIndex(const checkpoint::Config& config, int layer) {
  const auto& owners = config.kv_source_layer_ids;
  return static_cast<int>(std::find(owners.begin(), owners.end(), layer) - owners.begin());
}

// bf16 mean over the streams: [rows, streams * hidden] -> [rows, hidden].
Rows MeanOverStreams(const Rows& streams, int64_t hidden) {
  const int64_t n = streams.width / hidden;
  Rows out{streams.rows, hidden, {}};
  for (int64_t r = 0; r < streams.rows; ++r) {
    for (int64_t c = 0; c < hidden; ++c) {
      float sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += streams.Row(r)[static_cast<size_t>(j * hidden + c)];
      out.values.push_back(tensor::RoundBF16(sum / static_cast<float>(n)));
    }
  }
  return out;
}

// Columns [begin, begin + width) of every row.
Rows Columns(const Rows& rows, int64_t begin, int64_t width) {
  Rows out{rows.rows, width, {}};
  for (int64_t r = 0; r < rows.rows; ++r) {
    const auto row = rows.Row(r).subspan(static_cast<size_t>(begin), static_cast<size_t>(width));
    out.values.insert(out.values.end(), row.begin(), row.end());
  }
  return out;
}

}  // namespace

Status LayerProbe::JudgeCache(const Seen& seen, int64_t rows, RowFormat format) {
  if (!Stored(seen)) return {};
  TW_ASSIGN(const tensor::View stored, StoredRows(seen));
  rows = std::min(rows, stored.shape[0]);
  if (rows == 0) return {};
  const CacheErrors errors =
      CompareCache(LastRows(seen.view, rows), LastRows(stored, rows), format);
  context_.report.AtMost(Id(seen.layer, seen.point), errors.differing,
                         context_.limits.cache_elements);
  context_.report.AtMost(Id(seen.layer, seen.point, "steps"), errors.steps,
                         context_.limits.cache_steps);
  return {};
}

Status LayerProbe::FeedCache(const Seen& seen, const tensor::PagedRows& rows) {
  if (!Stored(seen)) return {};
  TW_ASSIGN(const tensor::View stored, StoredRows(seen));
  const int64_t first = seen.view.shape[0] - stored.shape[0];
  const tensor::Memory& memory = context_.model.pool().memory();
  std::vector<uint8_t> encoded(static_cast<size_t>(rows.row_bytes));
  for (int64_t r = 0; r < stored.shape[0]; ++r) {
    tensor::EncodeRow(rows.format, stored.as<BF16>() + r * rows.width, rows.width, encoded.data());
    memory.upload({}, rows.Row(first + r), encoded.data(), rows.row_bytes);
  }
  return {};
}

// Groups are complete when all of their tokens are there, so rows that were fed count as a whole.
Status LayerProbe::SeeCompressedKv(const Seen& seen) {
  if (seen.view.shape[0] == 0 || attn_rows_ < tokens_) return {};
  TW_TRY(JudgeCache(seen, seen.view.shape[0], RowFormat::kFp4E4M3));
  const int owner = OwnerIndex(context_.config(), seen.layer);
  return FeedCache(seen, context_.model.pool().MainRows(sequence_, owner));
}

Status LayerProbe::SeeIndexK(const Seen& seen) {
  Rows& keys = index_keys_[seen.layer];
  keys = LastRows(seen.view, seen.view.shape[0]);
  if (seen.view.shape[0] == 0 || attn_rows_ < tokens_) return {};
  TW_TRY(JudgeCache(seen, seen.view.shape[0], RowFormat::kFp4E8M0));
  const int owner = OwnerIndex(context_.config(), seen.layer);
  TW_TRY(FeedCache(seen, context_.model.pool().IndexRows(sequence_, owner)));
  if (!Stored(seen)) return {};
  TW_ASSIGN(const tensor::View stored, StoredRows(seen));
  const Rows fed = LastRows(stored, stored.shape[0]);
  std::copy(fed.values.begin(), fed.values.end(),
            keys.values.end() - static_cast<int64_t>(fed.values.size()));
  return {};
}

// fp32 sums of exact products: they get the limit of the other fp32 figures, against their size.
Status LayerProbe::SeePending(const Seen& seen) {
  if (attn_rows_ == 0) return {};
  return JudgeDense(seen, 1, {.relative_rms = context_.limits.coefficients, .median_row = {}});
}

// A tap is the mean of the streams at its layer's entry, which were fed.
Status LayerProbe::SeeTaps(const Seen& seen) {
  const checkpoint::Config& c = context_.config();
  const Rows taps = LastRows(seen.view, tokens_);
  for (size_t i = 0; i < c.dspark_target_layer_ids.size(); ++i) {
    const auto layer = static_cast<int>(c.dspark_target_layer_ids[i]);
    const std::string entry = plan(layer).engram ? Entry(layer, point::kEngramStreams)
                                                 : Entry(layer - 1, point::kStreamsOut);
    if (!golden().Has(entry)) continue;
    TW_ASSIGN(const tensor::View streams,
              golden().Get(entry, DType::kBF16, {kAnyDimension, c.hc_mult, c.hidden_size}));
    const Rows want = MeanOverStreams(LastRows(streams, streams.shape[0]), c.hidden_size);
    Rows got = Columns(taps, static_cast<int64_t>(i) * c.hidden_size, c.hidden_size);
    got.values.erase(got.values.begin(),
                     got.values.end() - static_cast<int64_t>(want.values.size()));
    got.rows = want.rows;
    context_.report.AtMost(Id(layer, seen.point), CompareRows(got, want).relative_rms,
                           context_.limits.streams_out.relative_rms);
  }
  return {};
}

}  // namespace thalweg::tools
