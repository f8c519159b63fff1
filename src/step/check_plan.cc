// What every plan keeps (docs/contracts/step.md).
#include <fmt/format.h>

#include <algorithm>

#include "step/codec.h"

namespace thalweg::step {
namespace {

Status Wrong(std::string what) { return base::InvalidArgument("step plan: " + std::move(what)); }

bool IsSlot(int32_t slot) { return slot >= 0 && slot < kMaxSlots; }
bool IsPosition(int64_t position) { return position >= 0 && position <= kMaxPosition; }

Status CheckStart(const SequenceStart& s) {
  if (!IsSlot(s.slot)) return Wrong(fmt::format("a start in slot {}", s.slot));
  const auto tokens = static_cast<int64_t>(s.tokens.size());
  if (s.prompt_tokens < 1 || s.prompt_tokens > tokens) {
    return Wrong(fmt::format("{} prompt tokens of {}", s.prompt_tokens, tokens));
  }
  if (!IsPosition(s.end_tokens) || s.end_tokens < tokens) {
    return Wrong(fmt::format("an end at {} of {} tokens", s.end_tokens, tokens));
  }
  if (s.start < 0 || s.start >= tokens) {
    return Wrong(fmt::format("rows from {} on of {} tokens", s.start, tokens));
  }
  for (const int64_t p : {s.encoder_floor, s.decoder_floor, s.decoder_from, s.write_from}) {
    if (!IsPosition(p) || p > tokens) return Wrong(fmt::format("position {} of a start", p));
  }
  return {};
}

Status CheckRows(const SequenceRows& r) {
  if (!IsSlot(r.slot)) return Wrong(fmt::format("rows in slot {}", r.slot));
  if (!IsPosition(r.start) || r.count < 1) {
    return Wrong(fmt::format("{} rows from {} on", r.count, r.start));
  }
  if (!r.known_tokens && !r.sample) return Wrong("drafts that nobody samples behind");
  if (r.save_at < 0 || (r.save_at > 0 && (r.known_tokens || r.save_checkpoint < 0))) {
    return Wrong(fmt::format("a checkpoint of {} rows", r.save_at));
  }
  return {};
}

// Ranges follow one another and cover everything.
Status CheckBlocks(const StepPlan& plan) {
  int64_t at = 0;
  for (const SequenceRows& r : plan.rows) {
    if (r.new_blocks_count < 0 || r.new_blocks_begin != at) {
      return Wrong(fmt::format("blocks from {} on, where {} is due", r.new_blocks_begin, at));
    }
    at += r.new_blocks_count;
  }
  const auto blocks = static_cast<int64_t>(plan.blocks.size());
  if (at != blocks) return Wrong(fmt::format("{} blocks, {} of them used", blocks, at));
  const bool negative =
      std::any_of(plan.blocks.begin(), plan.blocks.end(), [](int32_t block) { return block < 0; });
  return negative ? Wrong("a negative block") : Status();
}

// Slots of a list: in range, each once.
template <typename List, typename SlotOf>
Status CheckOnce(const List& list, std::string_view what, const SlotOf& slot_of) {
  std::vector<bool> seen(list.empty() ? 0 : kMaxSlots);
  for (const auto& element : list) {
    const int32_t slot = slot_of(element);
    if (!IsSlot(slot)) return Wrong(fmt::format("{} slot {}", what, slot));
    if (seen[static_cast<size_t>(slot)]) return Wrong(fmt::format("{} slot {} twice", what, slot));
    seen[static_cast<size_t>(slot)] = true;
  }
  return {};
}

// A sequence that begins here runs here, from its start on.
Status CheckFirstRows(const StepPlan& plan, const SequenceStart& s) {
  const auto of = [&s](const SequenceRows& r) { return r.slot == s.slot; };
  const auto rows = std::find_if(plan.rows.begin(), plan.rows.end(), of);
  if (rows == plan.rows.end() || rows->sequence != s.sequence || rows->start != s.start) {
    return Wrong(fmt::format("sequence {} begins without its first rows", s.sequence));
  }
  const int64_t end = rows->start + rows->count;
  if (!rows->known_tokens || end > static_cast<int64_t>(s.tokens.size())) {
    return Wrong(fmt::format("the first rows of sequence {} have no tokens", s.sequence));
  }
  return {};
}

}  // namespace

Status CheckPlan(const StepPlan& plan) {
  TW_TRY(CheckOnce(plan.closes, "close", [](int32_t slot) { return slot; }));
  TW_TRY(CheckOnce(plan.starts, "start", [](const SequenceStart& s) { return s.slot; }));
  TW_TRY(CheckOnce(plan.rows, "rows of", [](const SequenceRows& r) { return r.slot; }));
  for (const SequenceStart& s : plan.starts) TW_TRY(CheckStart(s));
  for (const SequenceRows& r : plan.rows) TW_TRY(CheckRows(r));
  TW_TRY(CheckBlocks(plan));
  for (const SequenceStart& s : plan.starts) TW_TRY(CheckFirstRows(plan, s));
  return {};
}

}  // namespace thalweg::step
