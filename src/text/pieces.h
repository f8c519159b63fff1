// A prompt as a list of pieces, special tokens apart from text, so that no text can smuggle a
// special token in (spec/serving.md 2.6).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer.h"

namespace thalweg::text {

// Either a token given by number or text that is encoded with specials off.
struct Piece {
  std::variant<int32_t, std::string> value;

  static Piece Special(int32_t id) { return {id}; }
  static Piece Text(std::string_view text) { return {std::string(text)}; }

  bool is_special() const { return value.index() == 0; }
  int32_t id() const { return std::get<0>(value); }               // of a special
  const std::string& text() const { return std::get<1>(value); }  // of a text piece
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Adds text to the end of `pieces`, to the last piece when that is text already: BPE merges may
// cross the join (the effort line's "\n\n" before tools is one token).
void AppendText(std::vector<Piece>& pieces, std::string_view text);

// Ids of the pieces in order. Adjacent text pieces are joined before they are encoded.
std::vector<int32_t> EncodePieces(const Tokenizer& tokenizer, std::span<const Piece> pieces);

// The prompt as people read it: specials by their spelling. For logs and tests; it cannot be
// encoded back safely.
std::string SpellPieces(const Tokenizer& tokenizer, std::span<const Piece> pieces);

}  // namespace thalweg::text
