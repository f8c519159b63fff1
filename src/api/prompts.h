// Prompts as token ids, on the caller's thread.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace thalweg::api {

Result<std::vector<int32_t>> EncodeConversation(const text::Tokenizer& tokenizer,
                                                const Conversation& conversation);
std::vector<int32_t> EncodeText(const text::Tokenizer& tokenizer, std::string_view text,
                                const RequestOptions& options);
// Any prompt; empty ones are errors.
Result<std::vector<int32_t>> EncodePrompt(const text::Tokenizer* tokenizer, const Prompt& prompt,
                                          const RequestOptions& options);

// Every word as token sequences that must not appear: as it stands and, where that is spelled with
// other tokens, with a space before it. vLLM does so only where both have the same number of
// tokens.
Result<std::vector<std::vector<int32_t>>> EncodeBadWords(const text::Tokenizer* tokenizer,
                                                         const std::vector<std::string>& words);

}  // namespace thalweg::api
