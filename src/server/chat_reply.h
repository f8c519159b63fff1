// The answer to a conversation, read from the model's tokens: reasoning, content, calls, and when
// it is over. Each protocol says in its subclass how that looks.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "server/chat_plan.h"
#include "server/metrics.h"
#include "server/reply.h"
#include "text/output_events.h"
#include "text/token_output_decoder.h"

namespace thalweg::server {

// One sequence of an answer.
struct ChatChoice {
  text::DecodedOutput answer = {};  // so far
  bool finished = false;
  std::vector<ToolError> tool_errors = {};  // of calls, once it is finished
  std::vector<int32_t> sampled = {};        // tokens so far, where they are remembered
  int64_t tokens = 0, reasoning_tokens = 0;
  std::vector<PositionLogprobs> reasoning_logprobs = {}, content_logprobs = {};  // not yet taken
};

class ChatReply : public Reply {
 public:
  // Decoders for params.n sequences.
  static Result<std::vector<text::TokenOutputDecoder>> MakeDecoders(
      const ChatPlan& plan, const text::Tokenizer& tokenizer, const std::string& call_prefix);

  void Take(size_t request, const Delta& delta, std::string* out) final;
  bool Satisfied(size_t request, size_t index) const final;
  Usage usage() const final;
  std::string finish_reason() const override { return FinishName(choices_.front()); }

  // "stop", "length", "tool_calls", "abort", "error".
  static std::string FinishName(const ChatChoice& choice);

 protected:
  ChatReply(std::vector<text::TokenOutputDecoder> decoders, const ChatPlan& plan,
            const text::Tokenizer* tokenizer, Metrics* metrics);

  // What is new of a sequence, in order. The last event of a sequence is OutputEnd.
  virtual void OnEvents(size_t index, const text::OutputEvents& events, std::string* out) = 0;

  std::vector<ChatChoice>& choices() { return choices_; }
  const std::vector<ChatChoice>& choices() const { return choices_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  void TakeTokens(size_t index, const Delta& delta, text::OutputEvents* events);
  void TakeEnd(size_t index, const Delta& delta, text::OutputEvents* events);
  void Remember(ChatChoice* choice);
  void CheckCalls(ChatChoice* choice);

  std::vector<text::TokenOutputDecoder> decoders_;
  std::vector<bool> in_reasoning_;
  std::vector<ChatChoice> choices_;
  const text::Tokenizer* tokenizer_;
  Metrics* metrics_;
  std::shared_ptr<const ToolChecks> checks_;
  text::SampledTurns* turns_;
  int32_t end_of_reasoning_;
  int32_t end_of_turn_;
  std::array<int32_t, 3> marks_;  // special tokens that an answer may have
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0;
};

}  // namespace thalweg::server
