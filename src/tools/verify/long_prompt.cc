#include "tools/verify/long_prompt.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::tools {
namespace {

namespace point = model::point;
using tensor::DType;

// The manifest states no limits for these. A pool or selection of random positions would share a
// few percent; same-rounding and free engines share 0.56 and more of a selection and 0.7 and more
// of a pool, and their cache rows stay within 0.1 and 0.14 of the stored ones.
constexpr double kSharedSelection = 0.4;
constexpr double kSharedPool = 0.5;
constexpr double kTailSameRounding = 0.2;
constexpr double kTailFree = 0.3;

std::string Entry(int layer, std::string_view name) {
  return fmt::format("long/{}/{}", layer, name);
}

CheckId LongId(int layer, std::string_view name) {
  return {.stage = Stage::kLongPrompt,
          .layer = layer,
          .part = std::string(name),
          .name = Entry(layer, name)};
}

std::string TailName(std::string_view point) { return fmt::format("{}_tail", point); }

// The share of `stored` that is also in `ours`; both hold distinct entries, negative ones mean
// nothing.
double SharedPart(const std::vector<int32_t>& ours, std::span<const int32_t> stored) {
  int64_t total = 0;
  int64_t shared = 0;
  for (const int32_t entry : stored) {
    if (entry < 0) continue;
    ++total;
    shared += std::find(ours.begin(), ours.end(), entry) != ours.end();
  }
  return total == 0 ? 1 : static_cast<double>(shared) / static_cast<double>(total);
}

std::vector<int32_t> MarkedEntries(std::span<const uint8_t> mask) {
  std::vector<int32_t> entries;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0) entries.push_back(static_cast<int32_t>(i));
  }
  return entries;
}

Rows Tail(const Rows& rows, int64_t count) {
  return {count, rows.width, {rows.values.end() - count * rows.width, rows.values.end()}};
}

}  // namespace

bool LongProbe::Wants(int layer, std::string_view name) const {
  if (name == point::kIndexSel || name == point::kCandidates)
    return golden_.Has(Entry(layer, name));
  const bool cache = name == point::kCompressedKv || name == point::kIndexK;
  return cache && golden_.Has(Entry(layer, TailName(name)));
}

void LongProbe::See(int layer, std::string_view name, const tensor::MutableView& view) {
  const int64_t width = view.shape[1];
  const int64_t last = (view.shape[0] - 1) * width;
  if (name == point::kIndexSel) {
    selection_[layer].assign(view.as<int32_t>() + last, view.as<int32_t>() + last + width);
  } else if (name == point::kCandidates) {
    pool_[layer].assign(view.as<uint8_t>() + last, view.as<uint8_t>() + last + width);
  } else {
    caches_[{layer, name}] = LastRows(view, view.shape[0]);
  }
}

Status LongProbe::ReportSelection(VerifyContext& context, int layer,
                                  const std::vector<int32_t>& ours) const {
  const auto name = point::kIndexSel;
  TW_ASSIGN(const auto stored, golden_.Integers(Entry(layer, name)));
  context.report.AtLeast(LongId(layer, name), SharedPart(ours, stored), kSharedSelection,
                         "share of the stored entries");
  return {};
}

Status LongProbe::ReportPool(VerifyContext& context, int layer,
                             const std::vector<uint8_t>& ours) const {
  const auto name = point::kCandidates;
  TW_ASSIGN(const auto view,
            golden_.Get(Entry(layer, name), DType::kU8, {static_cast<int64_t>(ours.size())}));
  const std::vector<int32_t> stored = MarkedEntries({view.as<uint8_t>(), ours.size()});
  context.report.AtLeast(LongId(layer, name), SharedPart(MarkedEntries(ours), stored), kSharedPool,
                         "share of the stored entries");
  return {};
}

Status LongProbe::ReportTail(VerifyContext& context, int layer, std::string_view name,
                             const Rows& ours) const {
  const std::string entry = Entry(layer, TailName(name));
  TW_ASSIGN(const auto view, golden_.Get(entry, DType::kBF16, {kAnyDimension, ours.width}));
  if (view.shape[0] > ours.rows)
    return base::InvalidArgument(
        fmt::format("golden entry {} has more rows than the cache", entry));
  const RowErrors errors = CompareRows(Tail(ours, view.shape[0]), LastRows(view, view.shape[0]));
  context.report.AtMost(LongId(layer, TailName(name)), errors.relative_rms,
                        context.limits.same_rounding ? kTailSameRounding : kTailFree);
  return {};
}

Status LongProbe::Report(VerifyContext& context) const {
  for (const auto& [key, rows] : caches_) TW_TRY(ReportTail(context, key.first, key.second, rows));
  for (const auto& [layer, ours] : pool_) TW_TRY(ReportPool(context, layer, ours));
  for (const auto& [layer, ours] : selection_) TW_TRY(ReportSelection(context, layer, ours));
  return {};
}

}  // namespace thalweg::tools
