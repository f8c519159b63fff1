// Text in which special tokens may be spelled, and free text around marks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/regex_arena.h"
#include "grammar/rules.h"
#include "text/tokenizer.h"

namespace thalweg::grammar {

// A piece of text, or a special token.
struct MarkedPiece {
  std::string text = {};
  int32_t token = -1;  // >= 0: a token, and no text
  bool operator==(const MarkedPiece&) const = default;
};

// `text` split where it spells special tokens of `tokenizer` (null: nowhere).
std::vector<MarkedPiece> SplitMarkedText(std::string_view text, const text::Tokenizer* tokenizer);
Symbol SymbolOfPieces(std::span<const MarkedPiece> pieces, Rules* rules);

// Any text (UTF-8) in which none of `without` occurs.
RegexId FreeText(std::span<const std::string> without, RegexArena* arena);
// Any text that ends in `mark`, in which none of `marks` ends earlier and none of `without` occurs:
// what comes before the first mark, and the mark.
RegexId TextUpTo(std::string_view mark, std::span<const std::string> marks,
                 std::span<const std::string> without, RegexArena* arena);

}  // namespace thalweg::grammar
