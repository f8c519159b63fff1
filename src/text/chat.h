// System, user and assistant turns as a prompt (spec/serving.md 2.2, 2.3, 2.5, 2.9). Tools, images
// and JSON mode are not part of this header.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/pieces.h"
#include "text/tokenizer.h"

namespace thalweg::text {

enum class Role { kSystem, kUser, kAssistant };

// "system", "user" or "assistant".
Result<Role> ParseRole(std::string_view name);

struct ChatTurn {
  Role role = Role::kUser;
  std::string content;
  std::string reasoning;  // assistant turns: what stood between <think> and </think>
};

inline constexpr int kMinEffort = 1;
inline constexpr int kMaxEffort = 100;
inline constexpr int kDefaultEffort = 75;

struct ChatOptions {
  bool thinking = true;
  int effort = kDefaultEffort;        // kMinEffort..kMaxEffort; used with thinking only
  bool add_generation_prompt = true;  // end with <｜Assistant｜> and the think mark
  // Disagreement D1 of spec/serving.md 2.9: with true, reasoning of assistant turns before the last
  // user turn (or system turn after the first message) is dropped, as the Hugging Face encoder does
  // offline; with false all of it is kept, so that prompts only ever grow and prefixes stay cached.
  bool drop_thinking = true;
};

// The prompt as pieces, for EncodePieces. No turns, an effort out of range, or a tokenizer that
// lacks one of the protocol's tokens is an error that names it.
Result<std::vector<Piece>> RenderChat(const Tokenizer& tokenizer, std::span<const ChatTurn> turns,
                                      const ChatOptions& options);

// Effort as people write it: low (50), high (75), max (100) or a whole number 1..100
// (spec/serving.md 2.5).
Result<int> ParseEffort(std::string_view text);

}  // namespace thalweg::text
