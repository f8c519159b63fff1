// A loaded model that answers: many prompts at once, or one as a stream.
//
//   auto llm = thalweg::LLM::Load({.model = "path/or/name"});
//   if (!llm) ...llm.error().message...
//   auto outputs = llm->Generate({"What does courage mean?"}, {.temperature = 0, .max_tokens =
//   64});
//
// Every method may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "thalweg/error.h"
#include "thalweg/request_output.h"
#include "thalweg/sampling_params.h"

namespace thalweg {

namespace api {
class EngineModel;
}

struct ToolCall {
  std::string id = {};
  std::string name = {};       // "name" or "namespace::name"
  std::string arguments = {};  // JSON of an object
};

struct ChatMessage {
  std::string role = "user";  // "system", "user", "assistant", "tool" or "latest_reminder"
  std::string content = {};
  std::string reasoning = {};             // assistant: what stood between <think> and </think>
  std::vector<ToolCall> tool_calls = {};  // assistant
  std::string tool_call_id = {};          // tool: the call that this is the result of
  bool to_be_continued = false;           // assistant, last: the answer goes on behind this text
};

struct Tool {
  std::string name = {};  // "name" or "namespace::name"
  std::string description = {};
  std::string parameters = {};  // JSON Schema of an object; empty: no parameters
};

// Rendered with the model's own chat encoding. Text in it never becomes a special token.
struct Conversation {
  std::vector<ChatMessage> messages = {};
  bool thinking = false;
  int effort = 75;  // 1..100, with thinking
  bool add_generation_prompt = true;
  // Tools that the answer may call: its text then holds the calls as the model writes them.
  std::vector<Tool> tools = {};
  // Leaves out reasoning before the last turn of the user, where no tools are declared.
  bool drop_thinking = true;
};

// A conversation from JSON: {"messages": [...], "tools": [...], "thinking": bool, "effort": 1..100
// or a name, "add_generation_prompt": bool, "drop_thinking": bool}, messages and tools as OpenAI's
// chat completions have them (docs/chat.md).
THALWEG_API Expected<Conversation> ConversationFromJson(std::string_view json);

// Text, token ids as they are, or a conversation.
using Prompt = std::variant<std::string, std::vector<int32_t>, Conversation>;

struct LLMOptions {
  std::string model = {};  // folder or Hugging Face name; empty: DEEPINFER_HF_MODEL_DIR, else nano
  // Every option of LLM::Options() by name, '-' and '_' alike, as text. What is left out comes from
  // the environment, then from option_file, then from the defaults.
  std::map<std::string, std::string> options = {};
  std::string option_file = {};  // JSON object
  // Asked on the calling thread while a model is downloaded and loaded; true ends Load with an
  // error. What has been downloaded is kept.
  std::function<bool()> interrupted = {};
};

struct OptionInfo {
  std::string name = {};
  std::string type = {};  // "text", "integer", "real", "flag"
  std::string default_value = {};
  std::string environment = {};
  std::string help = {};
  std::vector<std::string> choices = {};
  double least = 0, most = 0;  // the range, when most > least
};

// How the prompt of a request is read, and how the request is treated.
struct RequestOptions {
  std::string request_id = {};  // unique among those under way; empty: one is made
  // Text prompts: begin with the beginning-of-sentence token, and let text that spells a special
  // token become it. Turn the second off for text of strangers.
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
  int priority = 0;             // higher runs first
  std::string cache_salt = {};  // prefixes are shared only among equal salts
  bool prefix_reuse = true;     // false: nothing that is cached is used
};

struct GenerateProgress {
  size_t done = 0, total = 0;  // requests
  int64_t output_tokens = 0;
  double seconds = 0;
};

struct GenerateOptions {
  RequestOptions request = {};  // for all; request_id must be empty
  // Called on the calling thread about ten times a second; false cancels what is under way.
  std::function<bool(const GenerateProgress&)> progress = {};
};

// Called on a thread of the engine, in order for one request; the last call has `finished` set. It
// should not block; it may call Submit and Cancel.
using StreamCallback = std::function<void(const RequestOutput&)>;

// A request as a sequence of outputs. Destroying it before the end cancels the request.
//
//   for (const RequestOutput& output : *stream) ...
class THALWEG_API OutputStream {
 public:
  OutputStream(OutputStream&&) noexcept;
  OutputStream& operator=(OutputStream&&) noexcept;
  ~OutputStream();

  // Waits for the next output; nothing after the last.
  std::optional<RequestOutput> Next();
  const std::string& request_id() const;
  void Cancel();

  class Iterator {
   public:
    explicit Iterator(OutputStream* stream) : stream_(stream) { ++*this; }
    const RequestOutput& operator*() const { return *current_; }
    const RequestOutput* operator->() const { return &*current_; }
    Iterator& operator++() {
      current_ = stream_->Next();
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return current_.has_value(); }

   private:
    OutputStream* stream_;
    std::optional<RequestOutput> current_;
  };
  Iterator begin() { return Iterator(this); }
  std::nullptr_t end() { return nullptr; }

 private:
  friend class LLM;
  struct State;
  explicit OutputStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class THALWEG_API LLM {
 public:
  // Loads the model and starts the engine. Unknown options, values out of range and options that
  // contradict each other are errors that name them.
  static Expected<LLM> Load(const LLMOptions& options = {});
  // Every option that there is.
  static std::vector<OptionInfo> Options();

  LLM(LLM&&) noexcept;
  LLM& operator=(LLM&&) noexcept;
  // Cancels what is under way and waits for the step that runs.
  ~LLM();

  // One output for each prompt, in their order; `params` holds one for all or one each. A request
  // that is refused or fails has `error` set and does not disturb the others. The whole call is an
  // error only when there is no prompt or the counts do not match.
  Expected<std::vector<RequestOutput>> Generate(std::span<const Prompt> prompts,
                                                std::span<const SamplingParams> params,
                                                const GenerateOptions& options = {});
  Expected<std::vector<RequestOutput>> Generate(const std::vector<Prompt>& prompts,
                                                const SamplingParams& params = {},
                                                const GenerateOptions& options = {});
  // The answer to one conversation.
  Expected<RequestOutput> Chat(const Conversation& conversation, const SamplingParams& params = {});

  // Queues a request and returns its id; `callback` gets its outputs. Errors: what is wrong with
  // the request; then the callback is never called.
  Expected<std::string> Submit(const Prompt& prompt, const SamplingParams& params,
                               StreamCallback callback, const RequestOptions& options = {});
  // The same, to be iterated over. The LLM must outlive the stream.
  Expected<OutputStream> Stream(const Prompt& prompt, const SamplingParams& params = {},
                                const RequestOptions& options = {});
  // Ends a request at any moment with "cancelled"; unknown ids are ignored.
  void Cancel(const std::string& request_id);
  // Takes no new requests and returns when those under way have ended, or, with abandon, after
  // cancelling them. Returns how many were cancelled.
  int64_t Drain(bool abandon);

  // What the checkpoint recommends (generation_config.json), over the defaults of SamplingParams.
  SamplingParams RecommendedParams() const;

  // Counters and times since the start, as one JSON object.
  std::string MetricsJson() const;
  // Tokens that prompt and answer may have together.
  int64_t context_tokens() const;

  // Token ids of a text, as a text prompt is read.
  std::vector<int32_t> Encode(std::string_view text, const RequestOptions& options = {}) const;
  // The prompt of a conversation as token ids.
  Expected<std::vector<int32_t>> EncodeChat(const Conversation& conversation) const;
  std::string Decode(std::span<const int32_t> token_ids, bool skip_special_tokens = true) const;

 private:
  friend class api::EngineModel;  // the server's model
  struct State;
  explicit LLM(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thalweg
