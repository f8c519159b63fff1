// UTF-8 as it comes from outside: step through it, check it, and repair it by putting U+FFFD in the
// place of each maximal subpart of an ill-formed sequence (Unicode 3.9, table 3-8; what the Rust
// tokenizers do when they decode).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind {
  kValid,      // a whole character
  kInvalid,    // a maximal subpart that no further byte can complete
  kTruncated,  // the text ends inside a character that further bytes could complete
};

struct Utf8Step {
  uint32_t code_point = 0;  // U+FFFD unless kind is kValid
  uint32_t length = 0;      // bytes that this step covers, 1 to 4
  Utf8Kind kind = Utf8Kind::kInvalid;
};

// The character, or the ill-formed part, at the front of `text`, which must not be empty.
Utf8Step DecodeUtf8(std::string_view text);

// Bytes at the front of `text` that are well-formed.
size_t ValidUtf8Prefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

// `text` with U+FFFD for each ill-formed maximal subpart, a truncated end included.
std::string RepairUtf8(std::string_view text);

// Appends one code point (a Unicode scalar value) as UTF-8.
void AppendUtf8(uint32_t code_point, std::string& out);

}  // namespace thalweg::text
