// How far one sequence has come in its grammar, and what may come next. Between the token of a step
// and the mask of the following one, a worker or the thread that waits does the work, once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/forced_text.h"
#include "engine/grammar_cache.h"
#include "engine/mask_workers.h"
#include "exec/token_masks.h"
#include "grammar/matcher.h"

namespace thalweg::engine {

// Of all sequences; only grows.
struct MaskTimes {
  std::atomic<uint64_t> masks = 0;
  std::atomic<uint64_t> make_ns = 0;  // inside matchers, on any thread
  std::atomic<uint64_t> wait_ns = 0;  // of threads that sample
};

class SequenceMasks final : public exec::TokenMasks,
                            public MaskJob,
                            public std::enable_shared_from_this<SequenceMasks> {
 public:
  // What all sequences share; outlives every call.
  struct Shared {
    MaskWorkers* workers = nullptr;
    MaskTimes* times = nullptr;
    ForcedText* forced = nullptr;
  };

  // `starts_after`: the grammar begins behind this token, and before it everything may come but an
  // end token; negative: it begins with the first token.
  SequenceMasks(GrammarRef grammar, int32_t starts_after, Shared shared);

  // The first mask is made from now on. Called once, before all else.
  void Prepare();

  Status Begin(std::span<const int32_t> output) override;
  std::vector<exec::ForcedDraft> Forced(int64_t most) override;
  Result<exec::NextTokens> Wait() override;
  Result<std::vector<exec::NextTokens>> WaitAlong(std::span<const int32_t> drafts) override;
  void Accept(std::span<const int32_t> tokens) override;
  void Work() override;

 private:
  // Two things are to be done behind each step, in turn, each by whoever comes first.
  enum class Phase : uint8_t {
    kReady,   // next_ is what may come
    kQueued,  // drawn_ is to be taken
    kTaking,
    kTaken,  // forced_ is known, the mask is to be made
    kMaking,
  };

  bool Advance(std::unique_lock<std::mutex>* lock);
  void TakeDrawn();
  void Make();
  Result<exec::NextTokens> NextOfGrammar();
  Status FollowDrafts(std::span<const int32_t> drafts, std::vector<exec::NextTokens>* masks);
  Status Take(int32_t token);

  const GrammarRef grammar_;
  const int32_t starts_after_;
  const Shared shared_;

  std::mutex mutex_;
  std::condition_variable ready_;
  Phase phase_ = Phase::kReady;
  // Of the thread that made the phase kTaking or kMaking, and of none else meanwhile.
  grammar::Matcher matcher_;
  bool started_;
  int64_t taken_ = 0;           // tokens, those before the start among them
  std::vector<int32_t> drawn_;  // have not been taken yet
  Result<exec::NextTokens> next_;
  std::vector<ForcedToken> forced_;  // behind what was taken
  size_t offered_ = 0;               // of them, as drafts of the step under way
  SpellingRates spelling_;
};

}  // namespace thalweg::engine
