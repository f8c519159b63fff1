#include "tests/simulator/fake_device.h"

#include <algorithm>

#include "base/check.h"
#include "cache/block_hash.h"

namespace thalweg::tests {

FakeDevice::FakeDevice(const sched::SchedulerOptions& options, const Faults& faults)
    : device_(options.reach, options.blocks, options.checkpoints),
      faults_(faults),
      script_(faults.seed),
      slots_(static_cast<size_t>(options.max_sequences)),
      block_salts_(static_cast<size_t>(options.blocks)) {}

void FakeDevice::SetSalt(uint64_t sequence, const std::string& salt) {
  const std::scoped_lock lock(mutex_);
  salts_[sequence] = salt;
}

step::PositionLogprobs FakeLogprobs(int32_t token, int64_t position) {
  step::PositionLogprobs out;
  const auto noise = static_cast<float>((token * 31 + position * 7) % 97);
  out.chosen = {.token = token, .logprob = -noise / 10, .rank = 1 + token % 5};
  out.top = {{.token = (token + 1) % 50, .logprob = -noise / 20, .rank = 1}};
  return out;
}

void FakeDevice::Begin(const step::StepPlan& plan) {
  for (const step::SequenceStart& start : plan.starts) {
    SlotOf(start.slot) = Slot{.start = start};
  }
}

// Blocks are appended in order: those below write_from hold what others wrote under the same salt.
void FakeDevice::CheckBlocks(const step::StepPlan& plan, const step::SequenceRows& rows) {
  Slot& slot = SlotOf(rows.slot);
  const std::scoped_lock lock(mutex_);
  const auto salt = salts_.find(rows.sequence);
  if (salt == salts_.end()) return;
  for (int32_t i = 0; i < rows.new_blocks_count; ++i) {
    const int32_t block = plan.blocks[static_cast<size_t>(rows.new_blocks_begin + i)];
    std::string& written = block_salts_.at(static_cast<size_t>(block));
    const bool shared = ++slot.blocks * cache::kBlockTokens <= slot.start.write_from;
    if (!shared) written = salt->second;
    TW_CHECK(written == salt->second);
  }
}

// Rows that did not happen leave a gap: what was planned behind them cannot run either.
bool FakeDevice::Fails(const step::SequenceRows& rows, bool step_fails) {
  Slot& slot = SlotOf(rows.slot);
  if (!slot.status.ok()) return true;
  if (step_fails) slot.status = base::Internal("rows before these did not happen");
  if (script_.OneIn(faults_.sequences))
    slot.status = base::Internal("scripted failure of a sequence");
  return !slot.status.ok();
}

void FakeDevice::FinishPrompt(const step::SequenceRows& rows, step::SequenceResult* result) {
  const step::SequenceStart& start = SlotOf(rows.slot).start;
  if (start.sampling.prompt_logprobs < 0 || !rows.known_tokens) return;
  for (int64_t row = rows.start; row < rows.start + rows.count; ++row) {
    if (row > 0 && row < start.prompt_tokens)
      result->prompt_logprobs.push_back(FakeLogprobs(start.tokens[static_cast<size_t>(row)], row));
  }
}

// Nothing comes behind a stop token, whatever was accepted.
void FakeDevice::FinishTokens(const step::SequenceRows& rows,
                              std::span<const step::SampledToken> tokens, step::SequenceResult* own,
                              step::StepResult* result) {
  Slot& slot = SlotOf(rows.slot);
  const step::SamplingParams& sampling = slot.start.sampling;
  const auto& stops = sampling.stop_token_ids;
  slot.length = rows.known_tokens ? rows.start + rows.count - 1 : slot.length;
  own->tokens_count = 0;
  for (step::SampledToken token : tokens) {
    ++slot.length;
    if (sampling.logprobs >= 0) token.logprobs = FakeLogprobs(token.token, slot.length);
    const bool stop = std::find(stops.begin(), stops.end(), token.token) != stops.end();
    if (stop) token.end = step::TokenEnd::kStopToken;
    result->Append(own, std::move(token));
    if (stop) return;
  }
}

void FakeDevice::Execute(const step::StepPlan& plan, step::StepResult* result) {
  const bool step_fails = script_.OneIn(faults_.steps);
  Begin(plan);
  healthy_ = plan;
  healthy_.rows.clear();
  for (const step::SequenceRows& rows : plan.rows) {
    CheckBlocks(plan, rows);
    if (!Fails(rows, step_fails)) healthy_.rows.push_back(rows);
  }
  step::StepResult answers = device_.Execute(healthy_);
  auto answer = answers.sequences.begin();
  for (const step::SequenceRows& rows : plan.rows) {
    step::SequenceResult& out = result->sequences.emplace_back();
    out = {.slot = rows.slot, .sequence = rows.sequence};
    if (step_fails) continue;
    out.status = SlotOf(rows.slot).status;
    if (!out.status.ok()) continue;
    const auto tokens = answers.TokensOf(*answer);
    out = *answer++;
    FinishPrompt(rows, &out);
    FinishTokens(rows, tokens, &out, result);
  }
  if (step_fails) result->status = base::Internal("scripted failure of a step");
}

}  // namespace thalweg::tests
