#include "text/utf8.h"

#include <cstring>

#include "base/check.h"

namespace thalweg::text {
namespace {

// What a lead byte announces: how many bytes follow, and the range of the first of them. The
// narrowed ranges exclude overlong forms, surrogates and code points above U+10FFFF.
struct Lead {
  uint32_t followers = 0;  // 0: not a lead byte of a multi-byte character
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

uint8_t ByteAt(std::string_view text, size_t index) { return static_cast<uint8_t>(text[index]); }

// Bytes at the front of `text` that are ASCII, eight at a time while they last.
size_t AsciiPrefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t pos = 0;
  for (uint64_t word = 0; pos + sizeof(word) <= text.size(); pos += sizeof(word)) {
    std::memcpy(&word, text.data() + pos, sizeof(word));
    if ((word & kHighBits) != 0) break;
  }
  while (pos < text.size() && ByteAt(text, pos) < 0x80) ++pos;
  return pos;
}

}  // namespace

Utf8Step DecodeUtf8(std::string_view text) {
  const uint8_t first = ByteAt(text, 0);
  if (first < 0x80) return {first, 1, Utf8Kind::kValid};
  const Lead lead = LeadOf(first);
  if (lead.followers == 0) return {0xFFFD, 1, Utf8Kind::kInvalid};
  uint32_t code_point = first & (0x3Fu >> lead.followers);
  for (uint32_t i = 1; i <= lead.followers; ++i) {
    if (i == text.size()) return {0xFFFD, i, Utf8Kind::kTruncated};
    const uint8_t byte = ByteAt(text, i);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {0xFFFD, i, Utf8Kind::kInvalid};
    code_point = (code_point << 6) | (byte & 0x3F);
  }
  return {code_point, lead.followers + 1, Utf8Kind::kValid};
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t pos = 0;
  while (true) {
    pos += AsciiPrefix(text.substr(pos));
    if (pos == text.size()) break;
    const Utf8Step step = DecodeUtf8(text.substr(pos));
    if (step.kind != Utf8Kind::kValid) break;
    pos += step.length;
  }
  return pos;
}

std::string RepairUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    text.remove_prefix(DecodeUtf8(text).length);
    out.append(kReplacement);
  }
  return out;
}

std::string Excerpt(std::string_view text) {
  constexpr size_t kMost = 100;
  if (text.size() <= kMost) return RepairUtf8(text);
  size_t end = kMost;
  const auto continues = [&](size_t at) { return (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80; };
  while (end > kMost - 3 && continues(end)) --end;
  return RepairUtf8(text.substr(0, end)) + "...";
}

void AppendUtf8(uint32_t code_point, std::string& out) {
  TW_CHECK_LE(code_point, 0x10FFFFu);
  const auto follower = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    follower(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    follower(6);
    follower(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    follower(12);
    follower(6);
    follower(0);
  }
}

}  // namespace thalweg::text
