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
#include "sampling/best_first.h"
#include "sampling/noise.h"
#include "sampling/params.h"
#include "sampling/sequence_state.h"
#include "step/plan.h"

namespace thalweg::sampling {

// Called with every token so far (prompt first) and the row's logits [vocab], after penalties and
// before the temperature. An error ends that sequence alone.
using Processor = std::function<Status(std::span<const int32_t> tokens, std::span<float> logits)>;

// What a grammar lets come next.
struct TokenMask {
  // Bit t % 32 of word t / 32: token t may come; ceil(vocab / 32) words. Empty: every token.
  std::span<const uint32_t> words = {};
  // The text is complete, and nothing but an end can follow.
  bool complete = false;
};

struct RowSample {
  int32_t token = -1;      // none when fulfilled
  bool fulfilled = false;  // the mask is complete and nothing is left to choose
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

// Draws in place of Choose (choose.h): from processed logits [vocab], the best of which is finite.
// What a token is drawn for, its end and its log-probabilities, stay as they are.
using Chooser = std::function<int32_t(std::span<const float> logits, Entry best)>;

struct Row {
  std::span<float> logits = {};  // [vocab], fp32, finite; changed where parameters change them
  const SequenceState* state = nullptr;
  int64_t position = 0;                  // absolute, of the token being sampled
  const Processor* processor = nullptr;  // may be null
  TokenMask mask = {};
  const Chooser* chooser = nullptr;  // may be null; not asked for a forced token
};

// The token for a position. Errors, of this sequence alone: kInternal when the model's logits are
// not finite, kInvalidArgument when nothing is left to choose (says which parameters exclude
// everything) or the processor made logits that are not, what the processor answers. Under a
// complete mask nothing left to choose is no error, but the end.
Result<RowSample> SampleRow(const Row& row, Scratch* scratch);
Result<RowSample> SampleRow(std::span<float> logits, const SequenceState& state, int64_t position,
                            const Processor* processor, Scratch* scratch);

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
