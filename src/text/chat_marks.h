// The tokens of the chat format in one tokenizer (spec/serving.md 2.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/dsml.h"
#include "text/tokenizer.h"

namespace thalweg::text {

inline constexpr std::string_view kThinkMark = "<think>";
inline constexpr std::string_view kEndThinkMark = "</think>";
inline constexpr std::string_view kReminderMark = "<｜latest_reminder｜>";
inline constexpr std::string_view kImageTokens[] = {"<｜image｜>", "<｜deepseek_image｜>"};

struct ChatMarks {
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t system = -1;
  int32_t user = -1;
  int32_t assistant = -1;
  int32_t think = -1;
  int32_t end_think = -1;
  // Of some conversations only; -1: the tokenizer has none.
  int32_t dsml = -1;
  int32_t reminder = -1;
  int32_t image = -1;

  // The error names the first token that every conversation needs and the tokenizer lacks.
  // `image_token`: how the image token is spelled; empty: one of kImageTokens.
  static Result<ChatMarks> Find(const Tokenizer& tokenizer, std::string_view image_token);
};

// The error about a token that the tokenizer lacks.
Status MissingMark(std::string_view name);

}  // namespace thalweg::text
