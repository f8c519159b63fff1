#include "step/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace thalweg::step {
namespace {

// Every entry of a plan as lost.
void FailAll(const StepPlan& plan, StepResult* result) {
  result->tokens.clear();
  result->sequences.clear();
  for (const SequenceRows& rows : plan.rows)
    result->sequences.push_back(
        {.slot = rows.slot, .sequence = rows.sequence, .saved = false, .status = result->status});
}

bool Fits(const SequenceRows& rows, const SequenceResult& result) {
  if (result.sequence != rows.sequence || result.slot != rows.slot) return false;
  if (!result.status.ok()) return true;
  return result.tokens_count <= (rows.sample ? rows.count : 0);
}

}  // namespace

void AppendPart(StepPlan* part, int32_t first_slot, StepPlan* whole) {
  const auto first_block = static_cast<int32_t>(whole->blocks.size());
  for (const int32_t slot : part->closes) whole->closes.push_back(first_slot + slot);
  for (SequenceStart& start : part->starts) {
    whole->starts.push_back(std::move(start));
    whole->starts.back().slot += first_slot;
  }
  for (const SequenceRows& rows : part->rows) {
    whole->rows.push_back(rows);
    whole->rows.back().slot += first_slot;
    whole->rows.back().new_blocks_begin += first_block;
  }
  whole->blocks.insert(whole->blocks.end(), part->blocks.begin(), part->blocks.end());
}

void TakePart(const StepPlan& whole, int32_t first_slot, int32_t slots, StepPlan* part) {
  part->Clear();
  part->number = whole.number;
  const auto mine = [&](int32_t slot) { return slot >= first_slot && slot < first_slot + slots; };
  for (const int32_t slot : whole.closes)
    if (mine(slot)) part->closes.push_back(slot - first_slot);
  for (const SequenceStart& start : whole.starts) {
    if (!mine(start.slot)) continue;
    part->starts.push_back(start);
    part->starts.back().slot -= first_slot;
  }
  for (const SequenceRows& rows : whole.rows) {
    if (!mine(rows.slot)) continue;
    SequenceRows& own = part->rows.emplace_back(rows);
    own.slot -= first_slot;
    own.new_blocks_begin = static_cast<int32_t>(part->blocks.size());
    const auto begin = whole.blocks.begin() + rows.new_blocks_begin;
    part->blocks.insert(part->blocks.end(), begin, begin + rows.new_blocks_count);
  }
}

Status CheckResult(const StepPlan& plan, const StepResult& result) {
  if (result.number != plan.number)
    return base::Internal(
        fmt::format("the result of step {} came for step {}", result.number, plan.number));
  if (!result.status.ok()) return {};
  if (result.sequences.size() != plan.rows.size())
    return base::Internal(fmt::format("the result of step {} has {} entries of {}", plan.number,
                                      result.sequences.size(), plan.rows.size()));
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    if (Fits(plan.rows[i], result.sequences[i])) continue;
    return base::Internal(fmt::format("the result of step {} does not fit its rows of sequence {}",
                                      plan.number, plan.rows[i].sequence));
  }
  return {};
}

void AppendPartResult(const StepPlan& plan, StepResult part, int32_t first_slot,
                      StepResult* whole) {
  if (!part.status.ok()) FailAll(plan, &part);
  TW_CHECK_EQ(part.sequences.size(), plan.rows.size());
  const auto first_token = static_cast<int32_t>(whole->tokens.size());
  for (SequenceResult& result : part.sequences) {
    result.slot += first_slot;
    result.tokens_begin += first_token;
    whole->sequences.push_back(std::move(result));
  }
  std::move(part.tokens.begin(), part.tokens.end(), std::back_inserter(whole->tokens));
  whole->execute_seconds = std::max(whole->execute_seconds, part.execute_seconds);
}

}  // namespace thalweg::step
