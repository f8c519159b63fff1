#include "server/chat_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/chat_marks.h"
#include "text/sampled_turns.h"

namespace thalweg::server {
namespace {

text::OutputReason ReasonOf(const std::string& finish) {
  if (finish == "stop") return text::OutputReason::kStop;
  if (finish == "length") return text::OutputReason::kLength;
  return finish == "cancelled" ? text::OutputReason::kCancelled : text::OutputReason::kError;
}

int32_t IdOf(const text::Tokenizer& tokenizer, std::string_view special) {
  return tokenizer.IdOfSpecial(special).value_or(-1);
}

void AppendEvents(text::OutputEvents more, text::OutputEvents* events) {
  events->insert(events->end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

}  // namespace

Result<std::vector<text::TokenOutputDecoder>> ChatReply::MakeDecoders(
    const ChatPlan& plan, const text::Tokenizer& tokenizer, const std::string& call_prefix) {
  std::vector<text::TokenOutputDecoder> decoders;
  for (int i = 0; i < plan.request.params.n; ++i) {
    text::OutputDecoderOptions options = plan.decoder;
    options.call_id_prefix = i == 0 ? call_prefix : fmt::format("{}{}_", call_prefix, i);
    TW_ASSIGN(text::TokenOutputDecoder decoder,
              text::TokenOutputDecoder::Create(tokenizer, std::move(options)));
    decoders.push_back(std::move(decoder));
  }
  return decoders;
}

ChatReply::ChatReply(std::vector<text::TokenOutputDecoder> decoders, const ChatPlan& plan,
                     const text::Tokenizer* tokenizer, Metrics* metrics)
    : decoders_(std::move(decoders)),
      in_reasoning_(decoders_.size(), plan.thinking),
      choices_(decoders_.size()),
      tokenizer_(tokenizer),
      metrics_(metrics),
      checks_(plan.checks),
      turns_(plan.turns),
      end_of_reasoning_(IdOf(*tokenizer, text::kEndThinkMark)),
      end_of_turn_(IdOf(*tokenizer, "<｜end▁of▁sentence｜>")),
      marks_{IdOf(*tokenizer, text::kThinkMark), end_of_reasoning_,
             IdOf(*tokenizer, text::kDsmlMark)} {}

// What follows a stop string or a block of calls is not part of the answer: not of its text, its
// log-probabilities, its count.
void ChatReply::TakeTokens(size_t index, const Delta& delta, text::OutputEvents* events) {
  ChatChoice& choice = choices_[index];
  for (size_t i = 0; i < delta.output.token_ids.size() && !decoders_[index].done(); ++i) {
    const int32_t id = delta.output.token_ids[i];
    AppendEvents(decoders_[index].Push(id), events);
    ++choice.tokens;
    if (turns_ != nullptr) choice.sampled.push_back(id);
    if (in_reasoning_[index]) ++choice.reasoning_tokens;
    if (delta.output.logprobs.has_value() && id != end_of_reasoning_) {
      (in_reasoning_[index] ? choice.reasoning_logprobs : choice.content_logprobs)
          .push_back((*delta.output.logprobs)[i]);
    }
    if (id == end_of_reasoning_) in_reasoning_[index] = false;
  }
}

void ChatReply::TakeEnd(size_t index, const Delta& delta, text::OutputEvents* events) {
  if (delta.output.finish_reason.empty() || choices_[index].finished) return;
  choices_[index].finished = true;
  AppendEvents(decoders_[index].Finish(ReasonOf(delta.output.finish_reason)), events);
  const text::OutputFaults& faults = std::get<text::OutputEnd>(events->back()).faults;
  metrics_->OnToolFaults(faults.mended_values + faults.incomplete_calls + faults.empty_blocks);
}

void ChatReply::Take(size_t, const Delta& delta, std::string* out) {
  const auto index = static_cast<size_t>(delta.output.index);
  prompt_tokens_ = delta.prompt_tokens;
  cached_tokens_ = delta.cached_tokens;
  text::OutputEvents events;
  TakeTokens(index, delta, &events);
  TakeEnd(index, delta, &events);
  if (events.empty()) return;
  ChatChoice& choice = choices_[index];
  Append(events, &choice.answer);
  if (choice.finished) {
    CheckCalls(&choice);
    Remember(&choice);
  }
  OnEvents(index, events, out);
}

void ChatReply::CheckCalls(ChatChoice* choice) {
  if (checks_ == nullptr || choice->answer.calls.empty()) return;
  choice->tool_errors = checks_->Check(choice->answer.calls);
  metrics_->OnToolFaults(static_cast<int64_t>(choice->tool_errors.size()));
}

// An answer that ended by itself; tokens that no answer should have are not repeated.
void ChatReply::Remember(ChatChoice* choice) {
  std::vector<int32_t> sampled = std::exchange(choice->sampled, {});
  if (choice->answer.end.reason != text::OutputReason::kToolCalls) return;
  if (!sampled.empty() && sampled.back() == end_of_turn_) sampled.pop_back();
  const auto strange = [&](int32_t id) {
    return tokenizer_->IsSpecial(id) && std::ranges::find(marks_, id) == marks_.end();
  };
  if (turns_ == nullptr || std::ranges::any_of(sampled, strange)) return;
  text::ChatMessage turn = text::ToMessage(choice->answer);
  turn.sampled = std::move(sampled);
  turns_->Remember(std::move(turn));
}

bool ChatReply::Satisfied(size_t, size_t index) const { return decoders_[index].done(); }

Usage ChatReply::usage() const {
  Usage usage{.prompt = prompt_tokens_, .cached = cached_tokens_};
  for (const ChatChoice& choice : choices_) {
    usage.completion += choice.tokens;
    usage.reasoning += choice.reasoning_tokens;
  }
  return usage;
}

std::string ChatReply::FinishName(const ChatChoice& choice) {
  switch (choice.answer.end.reason) {
    case text::OutputReason::kStop: return "stop";
    case text::OutputReason::kLength: return "length";
    case text::OutputReason::kToolCalls: return "tool_calls";
    case text::OutputReason::kCancelled: return "abort";
    case text::OutputReason::kError: return "error";
  }
  return "error";
}

}  // namespace thalweg::server
