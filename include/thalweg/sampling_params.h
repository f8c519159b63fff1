// How the tokens of a request are chosen. Names and defaults are those of vLLM where it has them;
// the order in which they act is in docs/sampling.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thalweg/error.h"

namespace thalweg {

// What a stream hands out each time.
enum class OutputKind {
  kCumulative,  // everything so far
  kDelta,       // what is new
  kFinalOnly,   // once, at the end
};

// Changes the logits of one position in place. `tokens`: prompt and output so far; `logits`:
// [vocab], after the penalties and before the temperature. Called on a thread of the engine. It
// must be a pure function of its arguments, or repeatability is lost. An error ends its sequence
// alone.
using LogitsProcessor =
    std::function<std::optional<Error>(std::span<const int32_t> tokens, std::span<float> logits)>;

// Values out of range are errors of the request that carries them, and name the field.
struct SamplingParams {
  int n = 1;  // sequences from one prompt, 1..256; sequence i uses seed + i

  double temperature = 1;  // [0, 100]; below 1e-5: greedy
  double top_p = 1;        // (0, 1]
  int64_t top_k = 0;       // <= 0: off
  double min_p = 0;        // [0, 1]

  double repetition_penalty = 1;  // (0, 100], over prompt and output
  double frequency_penalty = 0;   // [-2, 2], over the output
  double presence_penalty = 0;    // [-2, 2], over the output

  std::vector<std::pair<int32_t, float>> logit_bias = {};  // token, bias in [-100, 100]
  std::optional<std::vector<int32_t>> allowed_token_ids = {};
  std::vector<int32_t> banned_token_ids = {};
  // Words that never appear: each is tokenized as it stands and with a space before it.
  std::vector<std::string> bad_words = {};

  int64_t min_tokens = 0;                    // until so many are out, nothing ends the sequence
  std::optional<int64_t> max_tokens = 16;    // none: until the context is full
  std::vector<std::string> stop = {};        // strings that end the sequence
  std::vector<int32_t> stop_token_ids = {};  // tokens that do
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;

  std::optional<int> logprobs = {};         // 0..20: of the chosen token and so many of the best
  std::optional<int> prompt_logprobs = {};  // 0..20: the same for the prompt
  std::optional<uint64_t> seed = {};        // none: one is drawn

  // What the text must be (docs/structured.md): a JSON object {"type": "regex" | "json_schema" |
  // "ebnf" | "json_object" | "structural", "content": ...}. Empty: anything.
  std::string so_args = {};

  bool skip_special_tokens = true;              // in the text
  std::optional<int64_t> thinking_budget = {};  // tokens of reasoning until </think> is forced
  std::vector<LogitsProcessor> logits_processors = {};  // in order
  OutputKind output_kind = OutputKind::kCumulative;     // of streams

  // From a JSON object with the names above; seq_seed stands for seed, logit_bias is an object from
  // token id to bias, max_tokens and the optional ones may be null, output_kind is "cumulative",
  // "delta" or "final_only", so_args is an object; response_format of OpenAI's requests and
  // structured_outputs of vLLM's stand for so_args. What is left out keeps its default. Unknown
  // names are errors.
  THALWEG_API static Expected<SamplingParams> FromJson(std::string_view json);
};

}  // namespace thalweg
