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

void FakeDevice::Finish(const step::SequenceRows& rows, step::SequenceResult* result) const {
  const step::SequenceStart& start = slots_[static_cast<size_t>(rows.slot)].start;
  const step::SamplingParams& sampling = start.sampling;
  for (int64_t row = rows.start; sampling.prompt_logprobs >= 0 && row < rows.start + rows.count;
       ++row) {
    if (row > 0 && row < start.prompt_tokens)
      result->prompt_logprobs.push_back(FakeLogprobs(start.tokens[static_cast<size_t>(row)], row));
  }
  if (!result->sampled) return;
  if (sampling.logprobs >= 0)
    result->logprobs = FakeLogprobs(result->token, rows.start + rows.count);
  const auto& stops = sampling.stop_token_ids;
  if (std::find(stops.begin(), stops.end(), result->token) != stops.end())
    result->end = step::TokenEnd::kStopToken;
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
    out = std::move(*answer++);
    Finish(rows, &out);
  }
  if (step_fails) result->status = base::Internal("scripted failure of a step");
}

}  // namespace thalweg::tests
