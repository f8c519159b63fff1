// What is asked of the engine, and what it answers piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "step/plan.h"
#include "text/chat_encoding.h"

namespace thalweg::engine {

struct ChatPrompt {
  text::Conversation conversation = {};
  text::ChatOptions options = {};
};

// A custom logits processor: called on the executing thread with every token so far (prompt first)
// and the row's logits [vocab], after penalties and before the temperature. Must be a pure function
// of its arguments, or repeatability is lost. An error ends that sequence alone.
using LogitsProcessor =
    std::function<Status(std::span<const int32_t> tokens, std::span<float> logits)>;

struct GenerateRequest {
  std::string id = {};  // unique among the requests under way; empty: the engine makes one
  // Text is tokenized without special tokens; token ids are taken as they are.
  std::variant<std::string, std::vector<int32_t>, ChatPrompt> prompt = std::string();

  step::SamplingParams sampling = {};  // end tokens, think tokens and seed are filled at intake
  std::optional<uint64_t> seed = {};   // sequence i of n uses seed + i; none: drawn by the engine
  int64_t max_tokens = 16;             // < 0: until the context is full
  int32_t n = 1;                       // sequences from one prompt, 1..kMaxSequencesPerRequest
  std::vector<std::string> stop = {};  // stop strings
  bool include_stop = false;           // the stop string stays in the text
  bool skip_special_tokens = true;
  LogitsProcessor logits_processor = {};  // with seed set: its own purity is the caller's promise

  // What the text must be, as a JSON object: {"type": "json_schema", "content": {...}} and the like
  // (docs/structured.md). Empty: anything. Compiled in Submit.
  std::string so_args = {};

  int priority = 0;  // higher runs first
  std::string cache_salt = {};
  bool prefix_reuse = true;
};

inline constexpr int32_t kMaxSequencesPerRequest = 256;

// Why a sequence ended, as its user sees it.
enum class FinishReason : uint8_t {
  kNone,    // it goes on
  kStop,    // end token, stop token or stop string
  kLength,  // max_tokens or the context
  kCancelled,
  kError,
};
// "stop", "length", "cancelled", "error"; "" for kNone.
std::string_view FinishReasonName(FinishReason reason);

struct TokenOutput {
  int32_t id = 0;
  std::optional<step::PositionLogprobs> logprobs = {};
};

// One increment of one sequence. Concatenated text is the text; a stop string is held back until it
// cannot come any more.
struct Output {
  int32_t index = 0;  // of n
  std::string text = {};
  std::vector<TokenOutput> tokens = {};
  // Of sequence 0 alone, with its first increment.
  std::vector<step::PositionLogprobs> prompt_logprobs = {};
  FinishReason finish = FinishReason::kNone;
  // What stopped it, with kStop: the string, or the token; neither with an end token.
  std::optional<std::string> stop_string = {};
  std::optional<int32_t> stop_token = {};
  Status status = {};  // kError
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;     // of the prompt: came from the cache
  int64_t output_tokens = 0;     // so far
  int64_t reasoning_tokens = 0;  // of these: inside <think>
  // Steady clock, seconds since the engine started.
  double submitted_at = 0, admitted_at = 0, first_token_at = 0, at = 0;
};

// Called on the engine's output thread, in order for one request. Must not block for long and must
// not throw; may call Submit and Cancel.
using OutputSink = std::function<void(const Output&)>;

}  // namespace thalweg::engine
