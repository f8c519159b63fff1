#include "api/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/conversation_json.h"
#include "text/chat_encoding.h"

namespace thalweg::api {
namespace {

constexpr std::string_view kBeginOfSentence = "<｜begin▁of▁sentence｜>";

Status NoTokenizer(std::string_view what) {
  return base::FailedPrecondition(
      fmt::format("{} needs a tokenizer, and this model has none: give token ids", what));
}

Result<std::vector<int32_t>> EncodeAny(const text::Tokenizer* tokenizer, const Prompt& prompt,
                                       const RequestOptions& options) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  if (tokenizer == nullptr) return NoTokenizer("a prompt of text");
  if (const auto* conversation = std::get_if<Conversation>(&prompt))
    return EncodeConversation(*tokenizer, *conversation);
  const auto& text = std::get<std::string>(prompt);
  if (text.empty()) return std::vector<int32_t>();
  return EncodeText(*tokenizer, text, options);
}

std::vector<int32_t> EncodeWord(const text::Tokenizer& tokenizer, std::string_view word) {
  return tokenizer.Encode(word, text::Specials::kRecognise);
}

void AddBadWord(const text::Tokenizer& tokenizer, const std::string& word,
                std::vector<std::vector<int32_t>>* out) {
  const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
  const std::vector<int32_t> plain = EncodeWord(tokenizer, bare);
  std::vector<int32_t> spaced = EncodeWord(tokenizer, " " + bare);
  out->push_back(plain);
  // Where the space is a token of its own, the plain spelling is found behind it.
  const bool found =
      spaced.size() >= plain.size() && std::equal(plain.rbegin(), plain.rend(), spaced.rbegin());
  if (!found) out->push_back(std::move(spaced));
}

}  // namespace

Result<std::vector<int32_t>> EncodeConversation(const text::Tokenizer& tokenizer,
                                                const Conversation& conversation) {
  TW_ASSIGN(const text::Conversation chat, ToChat(conversation));
  return text::EncodeChat(tokenizer, chat, ToChatOptions(conversation));
}

std::vector<int32_t> EncodeText(const text::Tokenizer& tokenizer, std::string_view text,
                                const RequestOptions& options) {
  std::vector<int32_t> ids = tokenizer.Encode(
      text, options.parse_special_tokens ? text::Specials::kRecognise : text::Specials::kAsText);
  const std::optional<int32_t> begin = tokenizer.IdOfSpecial(kBeginOfSentence);
  if (!options.add_special_tokens || !begin.has_value()) return ids;
  if (ids.empty() || ids.front() != *begin) ids.insert(ids.begin(), *begin);
  return ids;
}

Result<std::vector<int32_t>> EncodePrompt(const text::Tokenizer* tokenizer, const Prompt& prompt,
                                          const RequestOptions& options) {
  TW_ASSIGN(std::vector<int32_t> ids, EncodeAny(tokenizer, prompt, options));
  if (ids.empty()) return base::InvalidArgument("the prompt is empty");
  return ids;
}

Result<std::vector<std::vector<int32_t>>> EncodeBadWords(const text::Tokenizer* tokenizer,
                                                         const std::vector<std::string>& words) {
  std::vector<std::vector<int32_t>> out;
  if (words.empty()) return out;
  if (tokenizer == nullptr) return NoTokenizer("bad_words");
  for (const std::string& word : words) {
    if (word.find_first_not_of(' ') == std::string::npos)
      return base::InvalidArgument("bad_words holds an empty word: leave it out");
    AddBadWord(*tokenizer, word, &out);
  }
  return out;
}

}  // namespace thalweg::api
