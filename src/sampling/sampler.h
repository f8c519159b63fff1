// From logits to tokens (docs/sampling.md, spec/decoding.md 4). What comes out is a function of the
// row's logits, the sequence's parameters, history and seed, and the position: neither neighbours
// in the batch nor threads change a bit of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/thread_team.h"
#include "sampling/noise.h"
#include "sampling/params.h"
#include "sampling/sequence_state.h"
#include "step/plan.h"

namespace thalweg::sampling {

// Called with every token so far (prompt first) and the row's logits [vocab], after penalties and
// before the temperature. An error ends that sequence alone.
using Processor = std::function<Status(std::span<const int32_t> tokens, std::span<float> logits)>;

struct RowSample {
  int32_t token = 0;
  step::TokenEnd end = step::TokenEnd::kNone;
  bool forced = false;                   // by the thinking budget
  step::PositionLogprobs logprobs = {};  // when params.logprobs >= 0
};

// Memory that sampling one row needs; grows to the vocabulary and stays. One thread at a time.
class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  struct Buffers;
  Buffers& buffers() { return *buffers_; }

 private:
  std::unique_ptr<Buffers> buffers_;
};

// Scratch for as many threads as ask at a time.
class ScratchPool {
 public:
  std::unique_ptr<Scratch> Take();
  void Give(std::unique_ptr<Scratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

// The token for `position`, the absolute position of the token being sampled. logits: [vocab],
// fp32, finite; changed where the sequence's parameters or the processor change them. processor may
// be null. Errors, of this sequence alone: kInternal when the model's logits are not finite,
// kInvalidArgument when nothing is left to choose (says which parameters exclude everything) or the
// processor made logits that are not, what the processor answers.
Result<RowSample> SampleRow(std::span<float> logits, const SequenceState& state, int64_t position,
                            const Processor* processor, Scratch* scratch);

// One row of many.
struct Row {
  std::span<float> logits = {};  // [vocab]
  const SequenceState* state = nullptr;
  int64_t position = 0;
  const Processor* processor = nullptr;
};

// SampleRow for each, over the team; rows with a processor run on the calling thread, in order.
// results: one for each row, in order.
void SampleRows(const base::ThreadTeam& team, std::span<const Row> rows, ScratchPool* pool,
                std::vector<Result<RowSample>>* results);

// Log-probabilities that the untouched logits [vocab] of a prompt row give: to `next`, the token
// that follows, with its rank, and to the `top` most probable (0..kMaxLogprobs). kInternal when the
// logits are not finite.
Result<step::PositionLogprobs> PromptLogprobs(std::span<const float> logits, int32_t next,
                                              int32_t top);

// log softmax of one entry, in double.
double LogProbability(std::span<const float> logits, int32_t token);

}  // namespace thalweg::sampling
