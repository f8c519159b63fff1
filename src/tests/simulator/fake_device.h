// A device without a model: the layered model of hashes (sched/layered_model.h) behind the executor
// interface, with scripted failures. Its tokens depend on everything that a real rank's would.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "exec/executor.h"
#include "sched/layered_model.h"
#include "sched/scheduler.h"

namespace thalweg::tests {

// Random numbers for scripts: the n-th draw of a seed.
class Script {
 public:
  explicit Script(uint64_t seed) : key_(base::PhiloxKeyOf(seed)) {}
  int64_t Below(int64_t n) {
    const uint32_t word = base::Philox4x32(
        {static_cast<uint32_t>(drawn_), static_cast<uint32_t>(drawn_ >> 32), 0, 0}, key_)[0];
    ++drawn_;
    return static_cast<int64_t>(word % static_cast<uint64_t>(n));
  }
  // False for n == 0.
  bool OneIn(int64_t n) { return n > 0 && Below(n) == 0; }

 private:
  base::PhiloxKey key_;
  uint64_t drawn_ = 0;
};

// What goes wrong: about one in so many; 0: never.
struct Faults {
  int64_t steps = 0;      // fail as a whole
  int64_t sequences = 0;  // entries that fail, and all later ones of their sequence
  uint64_t seed = 1;
};

class FakeDevice : public exec::Executor {
 public:
  FakeDevice(const sched::SchedulerOptions& options, const Faults& faults);

  void Execute(const step::StepPlan& plan, step::StepResult* result) override;

  // Thread-safe: the salt of a sequence. Blocks that it shares must have been written under it.
  void SetSalt(uint64_t sequence, const std::string& salt);

 private:
  struct Slot {
    step::SequenceStart start = {};
    int64_t blocks = 0;
    int64_t length = 0;  // rows that are part of the text
    Status status = {};  // once it has failed
  };

  void Begin(const step::StepPlan& plan);
  void CheckBlocks(const step::StepPlan& plan, const step::SequenceRows& rows);
  bool Fails(const step::SequenceRows& rows, bool step_fails);
  void FinishPrompt(const step::SequenceRows& rows, step::SequenceResult* result);
  void FinishTokens(const step::SequenceRows& rows, std::span<const step::SampledToken> tokens,
                    step::SequenceResult* own, step::StepResult* result);
  Slot& SlotOf(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }

  sched::Device device_;
  Faults faults_;
  Script script_;
  std::vector<Slot> slots_;
  std::vector<std::string> block_salts_;
  step::StepPlan healthy_;  // the plan without entries of failed sequences

  std::mutex mutex_;
  std::unordered_map<uint64_t, std::string> salts_;
};

// Log-probabilities that the device reports for a token at a position: any pure function would do.
step::PositionLogprobs FakeLogprobs(int32_t token, int64_t position);

}  // namespace thalweg::tests
