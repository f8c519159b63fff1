// UTF-8 as it comes from outside: step through it, check it, and repair it by putting U+FFFD in the
// place of each maximal subpart of an ill-formed sequence (Unicode 3.9, table 3-8; what the Rust
// tokenizers do when they decode).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

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

// The same for a `text` that is known to be well-formed, in less time: code point and length.
inline std::pair<uint32_t, uint32_t> DecodeWellFormed(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const auto tail = [&](size_t i) { return byte(i) & 0x3F; };
  if (byte(0) < 0x80) return {byte(0), 1};
  if (byte(0) < 0xE0) return {(byte(0) & 0x1F) << 6 | tail(1), 2};
  if (byte(0) < 0xF0) return {(byte(0) & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(byte(0) & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

// Bytes at the front of `text` that are well-formed.
size_t ValidUtf8Prefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

// `text` with U+FFFD for each ill-formed maximal subpart, a truncated end included.
std::string RepairUtf8(std::string_view text);

// The beginning of `text` for a message: at most 100 bytes, no character divided, ill-formed parts
// repaired, and "..." where something is left out.
std::string Excerpt(std::string_view text);

// Appends one code point (a Unicode scalar value) as UTF-8.
void AppendUtf8(uint32_t code_point, std::string& out);

}  // namespace thalweg::text
