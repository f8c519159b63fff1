#include "text/chat_marks.h"

#include <fmt/format.h>

namespace thalweg::text {
namespace {

int32_t FindImage(const Tokenizer& tokenizer, std::string_view image_token) {
  if (!image_token.empty()) return tokenizer.IdOfSpecial(image_token).value_or(-1);
  for (const std::string_view name : kImageTokens) {
    if (const auto id = tokenizer.IdOfSpecial(name)) return *id;
  }
  return -1;
}

}  // namespace

Status MissingMark(std::string_view name) {
  return base::NotFound(
      fmt::format("the tokenizer has no token \"{}\", which the chat format needs; use the "
                  "tokenizer.json that came with the checkpoint",
                  name));
}

Result<ChatMarks> ChatMarks::Find(const Tokenizer& tokenizer, std::string_view image_token) {
  ChatMarks marks;
  const std::pair<std::string_view, int32_t*> wanted[] = {
      {"<｜begin▁of▁sentence｜>", &marks.bos}, {"<｜end▁of▁sentence｜>", &marks.eos},
      {"<｜System｜>", &marks.system},         {"<｜User｜>", &marks.user},
      {"<｜Assistant｜>", &marks.assistant},   {kThinkMark, &marks.think},
      {kEndThinkMark, &marks.end_think}};
  for (const auto& [name, id] : wanted) {
    const std::optional<int32_t> found = tokenizer.IdOfSpecial(name);
    if (!found) return MissingMark(name);
    *id = *found;
  }
  marks.dsml = tokenizer.IdOfSpecial(kDsmlMark).value_or(-1);
  marks.reminder = tokenizer.IdOfSpecial(kReminderMark).value_or(-1);
  marks.image = FindImage(tokenizer, image_token);
  return marks;
}

}  // namespace thalweg::text
