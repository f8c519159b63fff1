// Layer-local checks of the indexer: queries, head weights, scores, candidates and selections.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/verify/layer_probe.h"
#include "tools/verify/selection.h"

namespace thalweg::tools {
namespace {

namespace point = model::point;
using tensor::DType;
using tensor::RowFormat;

constexpr std::string_view kIndexScore = "index_score";

// sum over heads of relu(q . k) * w, in double: what an exact engine would score.
double ExactScore(std::span<const float> q, std::span<const float> w, std::span<const float> k) {
  double score = 0;
  for (size_t h = 0; h < w.size(); ++h) {
    double dot = 0;
    for (size_t c = 0; c < k.size(); ++c) dot += double{q[h * k.size() + c]} * k[c];
    score += std::max(dot, 0.0) * w[h];
  }
  return score;
}

}  // namespace

Result<Rows> LayerProbe::StoredScores(int layer) const {
  const std::string entry = Entry(layer, kIndexScore);
  const int64_t entries = tokens_ / plan(layer).ratio;
  TW_ASSIGN(const tensor::View view, golden().Get(entry, DType::kF32, {tokens_, entries}));
  Rows scores = LastRows(view, tokens_);
  scores.width = entries;
  for (int64_t r = 0; r < tokens_; ++r) {
    const auto visible = scores.Row(r).first(static_cast<size_t>(Visible(layer, r)));
    if (!std::all_of(visible.begin(), visible.end(), [](float s) { return std::isfinite(s); }))
      return base::InvalidArgument(
          fmt::format("golden entry {} is not finite at row {}, where it is visible", entry, r));
  }
  return scores;
}

// No limit is stated for queries. They are rows of the index quantiser and get the caches' limit.
Status LayerProbe::SeeIndexQ(const Seen& seen) {
  index_q_ = LastRows(seen.view, tokens_);
  return JudgeCache(seen, attn_rows_, RowFormat::kFp4E8M0);
}

// Head weights are a bf16 product of attn_in, rounded twice: they get the limit of bf16 streams.
Status LayerProbe::SeeIndexW(const Seen& seen) {
  TW_TRY(JudgeDense(seen, attn_rows_, context_.limits.streams_out));
  if (attn_rows_ < tokens_ || !golden().Has(Entry(seen.layer, kIndexScore))) return {};
  TW_ASSIGN(const Rows want, StoredScores(seen.layer));
  JudgeScores(seen.layer, LastRows(seen.view, tokens_), want);
  return {};
}

void LayerProbe::JudgeTies(int layer, std::string_view part, double worst) {
  if (context_.limits.int8) {
    context_.report.Skip(Id(layer, part), "int8 products move index queries by whole fp4 steps");
  } else {
    context_.report.AtMost(Id(layer, part), worst, 1, "in units of the tie tolerance");
  }
}

void LayerProbe::JudgeScores(int layer, const Rows& weights, const Rows& want) {
  const Rows& keys = index_keys_[plan(layer).kv_owner];
  double worst = 0;
  for (int64_t r = 0; r < tokens_; ++r) {
    const auto visible = want.Row(r).first(static_cast<size_t>(Visible(layer, r)));
    const double tolerance = TieTolerance(visible, context_.config().index_topk);
    for (size_t g = 0; g < visible.size(); ++g) {
      const double score =
          ExactScore(index_q_.Row(r), weights.Row(r), keys.Row(static_cast<int64_t>(g)));
      const double off = std::fabs(score - visible[g]);
      if (off > 0) worst = Worse(worst, off / tolerance);
    }
  }
  JudgeTies(layer, kIndexScore, worst);
}

Status LayerProbe::SeeCandidates(const Seen& seen) {
  if (!Stored(seen) || attn_rows_ < tokens_) return {};
  TW_ASSIGN(const Rows scores, StoredScores(seen.layer));
  const int64_t entries = seen.view.shape[1];
  TW_TRY(golden().Get(Entry(seen.layer, seen.point), DType::kU8, {tokens_, entries}).status());
  const checkpoint::Config& c = context_.config();
  double worst = 0;
  for (int64_t r = 0; r < tokens_; ++r) {
    const auto visible = static_cast<size_t>(Visible(seen.layer, r));
    worst = Worse(worst, CandidateExcess({seen.view.as<uint8_t>() + r * entries, visible},
                                         scores.Row(r).first(visible), c.candidate_block_size,
                                         c.candidate_topk_blocks));
  }
  JudgeTies(seen.layer, seen.point, worst);
  return Feed(seen).status();
}

Result<std::vector<uint8_t>> LayerProbe::AllowedEntries(int layer, int64_t entries) const {
  const auto source = static_cast<int>(context_.config().candidate_source_layer_id);
  const std::string entry = Entry(source, point::kCandidates);
  if (!plan(layer).uses_candidates || !golden().Has(entry)) return std::vector<uint8_t>();
  TW_ASSIGN(const tensor::View view, golden().Get(entry, DType::kU8, {tokens_, entries}));
  return std::vector<uint8_t>(view.as<uint8_t>(), view.as<uint8_t>() + tokens_ * entries);
}

Status LayerProbe::JudgeSelection(const Seen& seen, const Rows& scores) {
  TW_ASSIGN(const std::vector<uint8_t> allowed, AllowedEntries(seen.layer, scores.width));
  const int64_t topk = seen.view.shape[1];
  double worst = 0;
  for (int64_t r = 0; r < tokens_; ++r) {
    const auto visible = static_cast<size_t>(Visible(seen.layer, r));
    const std::span<const uint8_t> row(allowed.data() + (allowed.empty() ? 0 : r * scores.width),
                                       allowed.empty() ? 0 : visible);
    worst = Worse(worst,
                  SelectionExcess({seen.view.as<int32_t>() + r * topk, static_cast<size_t>(topk)},
                                  scores.Row(r).first(visible), row, topk));
  }
  JudgeTies(seen.layer, seen.point, worst);
  return {};
}

// The stored selection has min(topk, entries) columns; what is fed must be readable cache rows.
Status LayerProbe::FeedSelection(const Seen& seen) {
  const std::string entry = Entry(seen.layer, seen.point);
  const int64_t topk = seen.view.shape[1];
  const int64_t columns = std::min(topk, tokens_ / plan(seen.layer).ratio);
  TW_ASSIGN(const tensor::View stored, golden().Get(entry, DType::kI32, {tokens_, columns}));
  for (int64_t r = 0; r < tokens_; ++r) {
    int32_t* row = seen.view.as<int32_t>() + r * topk;
    int64_t count = 0;
    for (int64_t i = 0; i < columns; ++i) {
      const int32_t selected = stored.as<int32_t>()[r * columns + i];
      if (selected < 0) continue;
      if (selected >= Visible(seen.layer, r) || (count > 0 && selected <= row[count - 1]))
        return base::InvalidArgument(
            fmt::format("golden entry {} selects {} at row {}: not ascending or not visible", entry,
                        selected, r));
      row[count++] = selected;
    }
    std::fill(row + count, row + topk, -1);
  }
  return {};
}

Status LayerProbe::SeeIndexSel(const Seen& seen) {
  if (!Stored(seen) || attn_rows_ < tokens_) return {};
  if (golden().Has(Entry(seen.layer, kIndexScore))) {
    TW_ASSIGN(const Rows scores, StoredScores(seen.layer));
    TW_TRY(JudgeSelection(seen, scores));
  }
  return FeedSelection(seen);
}

}  // namespace thalweg::tools
