// What comes back for a request. Names are those of vLLM where it has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "thalweg/error.h"

namespace thalweg {

struct Logprob {
  int32_t token_id = 0;
  float logprob = 0;  // natural logarithm, of the model's own distribution
  int rank = 0;       // 1: the most probable
  std::string decoded_token = {};
};

// At one position: of the token that is there, then of the most probable ones, best first.
struct PositionLogprobs {
  Logprob chosen = {};
  std::vector<Logprob> top = {};
};

// One sequence.
struct CompletionOutput {
  int index = 0;  // of n
  std::string text = {};
  std::vector<int32_t> token_ids = {};
  std::optional<double> cumulative_logprob = {};               // with logprobs
  std::optional<std::vector<PositionLogprobs>> logprobs = {};  // one for each of token_ids
  std::string finish_reason = {};  // "stop", "length", "cancelled", "error"; empty: it goes on
  // What stopped it, with "stop": a token of stop_token_ids or a string of stop; none: end of text.
  std::variant<std::monostate, int32_t, std::string> stop_reason = {};
  int64_t reasoning_tokens = 0;  // of all its tokens so far: inside <think>

  bool finished() const { return !finish_reason.empty(); }
};

// Seconds since the engine started.
struct RequestMetrics {
  double submitted_at = 0;
  double admitted_at = 0;  // when it began to run; before that it waited
  double first_token_at = 0;
  double last_token_at = 0;
};

struct RequestOutput {
  std::string request_id = {};
  std::optional<std::string> prompt = {};  // when it was given as text
  std::vector<int32_t> prompt_token_ids = {};
  // One for each prompt token; nothing for the first.
  std::optional<std::vector<std::optional<PositionLogprobs>>> prompt_logprobs = {};
  std::vector<CompletionOutput> outputs = {};
  bool finished = false;
  // Why the request was refused (no outputs then) or what ended one of its sequences.
  std::optional<Error> error = {};
  RequestMetrics metrics = {};
  int64_t num_cached_tokens = 0;  // of the prompt: came from the cache

  bool ok() const { return !error.has_value(); }
  // One JSON object with these names.
  THALWEG_API std::string ToJson() const;
};

}  // namespace thalweg
