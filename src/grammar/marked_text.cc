#include "grammar/marked_text.h"

#include <utility>

#include "grammar/regex_syntax.h"

namespace thalweg::grammar {
namespace {

RegexId AnyOf(std::span<const std::string> texts, RegexArena* arena) {
  std::vector<RegexId> literals;
  for (const std::string& text : texts) literals.push_back(arena->Literal(text));
  return arena->Either(literals);
}

// The automata of these languages are those of Aho and Corasick: about a state for each byte.
RegexId AsAutomaton(RegexId language, RegexArena* arena) {
  constexpr int64_t kMostStates = 10000;
  return arena->Determinise(language, kMostStates).value_or(language);
}

RegexId Containing(std::span<const std::string> texts, RegexArena* arena) {
  const RegexId parts[] = {kAnything, AnyOf(texts, arena), kAnything};
  return arena->Concat(parts);
}

}  // namespace

std::vector<MarkedPiece> SplitMarkedText(std::string_view text, const text::Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return {{std::string(text)}};
  std::vector<MarkedPiece> pieces;
  for (const int32_t id : tokenizer->Encode(text, text::Specials::kRecognise)) {
    if (tokenizer->IsSpecial(id)) {
      pieces.push_back({.token = id});
    } else {
      if (pieces.empty() || pieces.back().token >= 0) pieces.emplace_back();
      pieces.back().text += tokenizer->TokenBytes(id);
    }
  }
  return pieces;
}

Symbol SymbolOfPieces(std::span<const MarkedPiece> pieces, Rules* rules) {
  std::vector<Symbol> symbols;
  for (const MarkedPiece& piece : pieces) {
    symbols.push_back(piece.token >= 0 ? Rules::Token(piece.token) : rules->Literal(piece.text));
  }
  return rules->Sequence(symbols, "text");
}

RegexId FreeText(std::span<const std::string> without, RegexArena* arena) {
  const RegexId any = AnyText(CharacterEncoding::kUtf8, arena);
  if (without.empty()) return any;
  return AsAutomaton(arena->Both(any, arena->Not(Containing(without, arena))), arena);
}

RegexId TextUpTo(std::string_view mark, std::span<const std::string> marks,
                 std::span<const std::string> without, RegexArena* arena) {
  const RegexId any = AnyText(CharacterEncoding::kUtf8, arena);
  const RegexId byte = arena->Bytes(ByteSet::All());
  const RegexId earlier[] = {Containing(marks, arena), byte};
  std::vector<RegexId> parts = {arena->Concat(any, arena->Literal(mark)),
                                arena->Not(arena->Concat(earlier))};
  if (!without.empty()) parts.push_back(arena->Not(Containing(without, arena)));
  return AsAutomaton(arena->Both(parts), arena);
}

}  // namespace thalweg::grammar
