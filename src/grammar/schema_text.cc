#include "grammar/schema_text.h"

#include <array>
#include <string_view>

namespace thalweg::grammar {
namespace {

RegexId WhitespaceOf(RegexArena* regexes) {
  ByteSet bytes;
  for (const char c : std::string_view(" \t\n\r")) bytes.Add(static_cast<uint8_t>(c));
  return regexes->Repeat(regexes->Bytes(bytes), 0, kMostWhitespace);
}

ListFrame FrameOf(std::string_view open, std::string_view close, RegexId space, RegexId separator,
                  RegexArena* regexes) {
  const RegexId first = regexes->Literal(open), last = regexes->Literal(close);
  return {regexes->Concat(first, space), separator, regexes->Concat(space, last),
          regexes->Concat(std::array{first, space, last})};
}

}  // namespace

JsonPunctuation MakePunctuation(SchemaOptions::Whitespace policy, RegexArena* regexes) {
  using Whitespace = SchemaOptions::Whitespace;
  const bool flexible = policy == Whitespace::kFlexible;
  const RegexId space = flexible ? WhitespaceOf(regexes) : kEmptyString;
  const auto between = [&](std::string_view mark) {
    if (!flexible) {
      const std::string text(mark);
      return regexes->Literal(policy == Whitespace::kPython ? text + " " : text);
    }
    return regexes->Concat(std::array{space, regexes->Literal(mark), space});
  };
  const RegexId comma = between(",");
  return {between(":"), FrameOf("{", "}", space, comma, regexes),
          FrameOf("[", "]", space, comma, regexes)};
}

}  // namespace thalweg::grammar
