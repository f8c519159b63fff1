// Engines over nano and what requests bring out of them, in a form that is compared bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace thalweg::tests {

// One sequence: everything that must not depend on how it was computed.
struct Answer {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<float> logprobs;  // of each token, then of its top ones, with their ids between
  engine::FinishReason finish = engine::FinishReason::kNone;
  Status status;

  // Not part of the comparison.
  int64_t cached_tokens = 0;

  friend bool operator==(const Answer& a, const Answer& b) {
    return a.tokens == b.tokens && a.text == b.text && a.logprobs == b.logprobs &&
           a.finish == b.finish && a.status.code() == b.status.code();
  }
};
// Names what differs first; empty when nothing does.
std::string Difference(const Answer& expected, const Answer& actual);

// Options for nano with two threads; small enough to load often.
engine::EngineOptions NanoOptions();
std::unique_ptr<engine::Engine> LoadEngine(const engine::EngineOptions& options);

// Submits all at once and waits; one answer for each sequence, in order (n of the first request,
// then of the second...).
std::vector<Answer> RunAll(engine::Engine& engine, const std::vector<engine::GenerateRequest>& all);
// One after the other.
std::vector<Answer> RunEach(engine::Engine& engine,
                            const std::vector<engine::GenerateRequest>& all);

// Token ids that nano has, a function of the seed.
std::vector<int32_t> SomeTokens(int64_t count, uint64_t seed);

// A prompt of `shared` tokens that all such have in common, then `own` tokens, a function of the
// seed. Greedy, with 20 log-probabilities a token.
engine::GenerateRequest WithPrefix(int64_t shared, int64_t own, uint64_t seed, int64_t max_tokens);

}  // namespace thalweg::tests
