// Masks of tokens for sequences under a grammar, as the executor sees them: made by the engine on
// threads of its own while the forward runs, and waited for when a row is sampled
// (docs/contracts/exec.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace thalweg::exec {

// What may come next.
struct NextTokens {
  // Bit t % 32 of word t / 32: token t may come. Shared, never changed; null: every token.
  std::shared_ptr<const std::vector<uint32_t>> mask = {};
  // The text is complete and nothing but an end can follow.
  bool complete = false;
};

// A token that the constraint leaves no choice about, or hardly any: its text must come, but other
// tokens may spell it.
struct ForcedDraft {
  int32_t token = 0;
  double survival = 1;  // chance that it comes out, and all before it
};

// Of one sequence. Called by one thread, in the order Begin, then Forced (or not), Wait (or
// WaitAlong) and Accept in turn.
class TokenMasks {
 public:
  virtual ~TokenMasks() = default;
  // The sequence begins on a slot, or begins again after a preemption: `output` is what it has
  // generated so far. Errors are those of the sequence.
  virtual Status Begin(std::span<const int32_t> output) = 0;
  // Drafts for the positions behind everything that was accepted, at most so many: a function of
  // these tokens and of what came out before. Does not wait for masks.
  virtual std::vector<ForcedDraft> Forced(int64_t /*most*/) { return {}; }
  // For the token behind everything that was accepted. Waits for it, or makes it on this thread
  // when nobody has begun to. An error (the grammar's budget is used up) ends the sequence.
  virtual Result<NextTokens> Wait() = 0;
  // For a block of drafts: what may come first, as Wait says, and behind drafts 0, 1, ... in turn.
  // The list ends with the first that may not come, or that ends the text; nothing is accepted.
  virtual Result<std::vector<NextTokens>> WaitAlong(std::span<const int32_t> drafts) = 0;
  // The tokens that came out of a step, 1 or more. Returns at once: what may follow is made
  // elsewhere.
  virtual void Accept(std::span<const int32_t> tokens) = 0;
};

// The masks of a sequence by its number; null: there are none, which is an error of a sequence that
// says that it is constrained. Thread-safe.
using FindTokenMasks = std::function<std::shared_ptr<TokenMasks>(uint64_t sequence)>;

}  // namespace thalweg::exec
