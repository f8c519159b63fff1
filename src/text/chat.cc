#include "text/chat.h"

#include <fmt/format.h>

#include <charconv>

namespace thalweg::text {
namespace {

// The protocol's tokens that plain chat needs, by spec/serving.md 2.2.
struct Marks {
  int32_t bos = 0;
  int32_t eos = 0;
  int32_t system = 0;
  int32_t user = 0;
  int32_t assistant = 0;
  int32_t think = 0;
  int32_t end_think = 0;
};

Result<Marks> FindMarks(const Tokenizer& tokenizer) {
  Marks marks;
  const std::pair<std::string_view, int32_t*> wanted[] = {
      {"<｜begin▁of▁sentence｜>", &marks.bos}, {"<｜end▁of▁sentence｜>", &marks.eos},
      {"<｜System｜>", &marks.system},         {"<｜User｜>", &marks.user},
      {"<｜Assistant｜>", &marks.assistant},   {"<think>", &marks.think},
      {"</think>", &marks.end_think}};
  for (const auto& [name, id] : wanted) {
    const std::optional<int32_t> found = tokenizer.IdOfSpecial(name);
    if (!found) {
      return base::NotFound(fmt::format(
          "the tokenizer has no token \"{}\", which the chat format needs; use the tokenizer.json "
          "that came with the checkpoint",
          name));
    }
    *id = *found;
  }
  return marks;
}

// Index of the last turn that counts as a user turn for D1: users, and systems after the first.
size_t LastUserTurn(std::span<const ChatTurn> turns) {
  for (size_t i = turns.size(); i-- > 1;) {
    if (turns[i].role != Role::kAssistant) return i;
  }
  return 0;
}

class Renderer {
 public:
  Renderer(const Marks& marks, std::span<const ChatTurn> turns, const ChatOptions& options)
      : marks_(marks), turns_(turns), options_(options), last_user_(LastUserTurn(turns)) {}

  std::vector<Piece> Render() {
    Add(marks_.bos);
    Opening();
    for (size_t i = 0; i < turns_.size(); ++i) Turn(i);
    if (options_.add_generation_prompt) {
      Add(marks_.assistant);
      Add(options_.thinking ? marks_.think : marks_.end_think);
    }
    return std::move(pieces_);
  }

 private:
  void Add(int32_t id) { pieces_.push_back(Piece::Special(id)); }
  void Add(std::string_view text) { AppendText(pieces_, text); }

  // Rule 2: the system mark of message 0, which thinking needs even without a system text.
  void Opening() {
    if (turns_[0].role == Role::kSystem || options_.thinking) Add(marks_.system);
    if (options_.thinking) {
      Add(
          fmt::format("Reasoning Effort: {} (range {}-{}, the higher the value, the more thorough "
                      "the reasoning)\n\n",
                      options_.effort, kMinEffort, kMaxEffort));
    }
  }

  void Turn(size_t i) {
    switch (turns_[i].role) {
      case Role::kSystem:
        if (i > 0) Add(marks_.system);
        return Add(turns_[i].content);
      case Role::kUser: return User(i);
      case Role::kAssistant: return Assistant(i);
    }
  }

  // Rule 4: users in a row are one turn, joined by an empty line, empty texts too.
  void User(size_t i) {
    if (i > 0 && turns_[i - 1].role == Role::kUser) {
      Add("\n\n");
    } else {
      Add(marks_.user);
    }
    Add(turns_[i].content);
  }

  // Rule 7, with D1 deciding about old reasoning.
  void Assistant(size_t i) {
    Add(marks_.assistant);
    if (options_.thinking && i > 0 && !(options_.drop_thinking && i < last_user_)) {
      Add(marks_.think);
      Add(turns_[i].reasoning);
    }
    Add(marks_.end_think);
    Add(turns_[i].content);
    Add(marks_.eos);
  }

  const Marks& marks_;
  std::span<const ChatTurn> turns_;
  const ChatOptions& options_;
  size_t last_user_;
  std::vector<Piece> pieces_;
};

Status CheckEffort(int effort) {
  if (effort >= kMinEffort && effort <= kMaxEffort) return {};
  return base::OutOfRange(fmt::format("effort is {}; it must be low, high, max or a number {}..{}",
                                      effort, kMinEffort, kMaxEffort));
}

}  // namespace

Result<Role> ParseRole(std::string_view name) {
  if (name == "system") return Role::kSystem;
  if (name == "user") return Role::kUser;
  if (name == "assistant") return Role::kAssistant;
  return base::InvalidArgument(
      fmt::format("unknown role \"{}\"; use system, user or assistant", name));
}

Result<std::vector<Piece>> RenderChat(const Tokenizer& tokenizer, std::span<const ChatTurn> turns,
                                      const ChatOptions& options) {
  if (turns.empty()) return base::InvalidArgument("the conversation has no messages");
  if (options.thinking) TW_TRY(CheckEffort(options.effort));
  TW_ASSIGN(const Marks marks, FindMarks(tokenizer));
  return Renderer(marks, turns, options).Render();
}

Result<int> ParseEffort(std::string_view text) {
  if (text == "low") return 50;
  if (text == "high") return 75;
  if (text == "max") return kMaxEffort;
  int effort = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), effort);
  if (error != std::errc() || end != text.data() + text.size()) {
    return base::InvalidArgument(
        fmt::format("effort is \"{}\"; it must be low, high, max or a number {}..{}", text,
                    kMinEffort, kMaxEffort));
  }
  TW_TRY(CheckEffort(effort));
  return effort;
}

}  // namespace thalweg::text
