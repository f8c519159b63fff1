// Puts a prompt together from tokens, text of the format and text of strangers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_marks.h"
#include "text/chat_message.h"
#include "text/pieces.h"

namespace thalweg::text {

class PromptWriter {
 public:
  explicit PromptWriter(const ChatMarks& marks) : marks_(marks) {}

  const ChatMarks& marks() const { return marks_; }

  void Mark(int32_t id) { pieces_.push_back(Piece::Special(id)); }
  // Text that stays text, whatever it spells.
  void Text(std::string_view text) { AppendText(pieces_, text); }
  // Text of the format itself, in which <think>, </think> and ｜DSML｜ are tokens. Only for
  // constants.
  void Own(std::string_view text);
  // Blocks joined by an empty line; an image is its token, and its source goes to images().
  void Content(const ChatContent& content);

  std::vector<Piece> TakePieces() { return std::move(pieces_); }
  std::vector<std::string> TakeImages() { return std::move(images_); }

 private:
  const ChatMarks& marks_;
  std::vector<Piece> pieces_;
  std::vector<std::string> images_;
};

}  // namespace thalweg::text
