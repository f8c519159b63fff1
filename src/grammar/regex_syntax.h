// Regular expressions as people write them, to byte languages.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/regex_arena.h"

namespace thalweg::grammar {

enum class RegexDialect : uint8_t {
  kWhole,   // RE2-like; the whole text must match (so_args "regex")
  kSearch,  // ECMA 262 with the u flag, as JSON Schema's `pattern`: matches somewhere, ^ and $ are
            // the ends of the text
};

// How characters become bytes.
enum class CharacterEncoding : uint8_t {
  kUtf8,
  kJsonString,  // between the quotes of a JSON string: raw where JSON allows, and every escape
};

// Bytes of the code points [first, last], surrogates left out.
RegexId CodePoints(uint32_t first, uint32_t last, CharacterEncoding encoding, RegexArena* arena);
// Any one character, and any text, in the encoding.
RegexId AnyCharacter(CharacterEncoding encoding, RegexArena* arena);
RegexId AnyText(CharacterEncoding encoding, RegexArena* arena);
// The text, character by character in every spelling of the encoding. `text` is valid UTF-8.
RegexId EncodedText(std::string_view text, CharacterEncoding encoding, RegexArena* arena);

// Anchors, word borders and look-ahead are exact; under a repetition without end
// or of more than 16 they are refused, as back-references and look-behind are. Errors name the byte
// offset in the pattern and what to write instead.
Result<RegexId> ParseRegex(std::string_view pattern, RegexDialect dialect,
                           CharacterEncoding encoding, const Limits& limits, RegexArena* arena);

}  // namespace thalweg::grammar
