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
  // `starts_after`: the grammar begins behind this token, and before it everything may come but an
  // end token; negative: it begins with the first token. `workers` and `times` outlive every call.
  SequenceMasks(GrammarRef grammar, int32_t starts_after, MaskWorkers* workers, MaskTimes* times);

  // The first mask is made from now on. Called once, before all else.
  void Prepare();

  Status Begin(std::span<const int32_t> output) override;
  Result<exec::NextTokens> Wait() override;
  Result<std::vector<exec::NextTokens>> WaitAlong(std::span<const int32_t> drafts) override;
  void Accept(std::span<const int32_t> tokens) override;
  void Work() override;

 private:
  enum class Phase : uint8_t {
    kReady,   // next_ is what may come
    kQueued,  // nobody has begun to make it
    kRunning,
  };

  bool Claim();
  void Finish(std::unique_lock<std::mutex>* lock);
  Result<exec::NextTokens> Make();
  Result<exec::NextTokens> NextOfGrammar();
  Status FollowDrafts(std::span<const int32_t> drafts, std::vector<exec::NextTokens>* masks);
  Status Take(int32_t token);

  const GrammarRef grammar_;
  const int32_t starts_after_;
  MaskWorkers* const workers_;
  MaskTimes* const times_;

  std::mutex mutex_;
  std::condition_variable ready_;
  Phase phase_ = Phase::kReady;
  // Of the thread that made the phase kRunning, and of none else meanwhile.
  grammar::Matcher matcher_;
  bool started_;
  int64_t taken_ = 0;           // tokens, those before the start among them
  std::vector<int32_t> drawn_;  // have not been taken yet
  Result<exec::NextTokens> next_;
};

}  // namespace thalweg::engine
