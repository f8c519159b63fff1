#include "grammar/code_points.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace thalweg::grammar {
namespace {

constexpr uint32_t kLastCodePoint = 0x10FFFF;

// Numbers written with digits of which each is one byte: the expressions of all between two.
struct Digits {
  uint8_t low;   // the least digit after the first one
  uint8_t high;  // the greatest
  RegexId (*range)(uint8_t first, uint8_t last, RegexArena* arena);
};

bool AllAre(std::span<const uint8_t> digits, uint8_t digit) {
  return std::ranges::all_of(digits, [&](uint8_t d) { return d == digit; });
}

RegexId Between(std::span<const uint8_t> first, std::span<const uint8_t> last, const Digits& digits,
                RegexArena* arena) {
  const auto range = [&](uint8_t a, uint8_t b) { return digits.range(a, b, arena); };
  if (first.empty()) return kEmptyString;
  const auto first_rest = first.subspan(1);
  const auto last_rest = last.subspan(1);
  if (first[0] == last[0]) {
    const RegexId rest = Between(first_rest, last_rest, digits, arena);
    return arena->Concat(range(first[0], first[0]), rest);
  }
  std::vector<RegexId> choices;
  int begin = first[0];
  int end = last[0];
  const std::vector<uint8_t> lowest(first_rest.size(), digits.low);
  const std::vector<uint8_t> highest(first_rest.size(), digits.high);
  if (!AllAre(first_rest, digits.low)) {
    const RegexId rest = Between(first_rest, highest, digits, arena);
    choices.push_back(arena->Concat(range(first[0], first[0]), rest));
    ++begin;
  }
  if (!AllAre(last_rest, digits.high)) {
    const RegexId rest = Between(lowest, last_rest, digits, arena);
    choices.push_back(arena->Concat(range(last[0], last[0]), rest));
    --end;
  }
  if (begin <= end) {
    const RegexId rest = Between(lowest, highest, digits, arena);
    const RegexId some = range(static_cast<uint8_t>(begin), static_cast<uint8_t>(end));
    choices.push_back(arena->Concat(some, rest));
  }
  return arena->Either(choices);
}

RegexId RawBytes(uint8_t first, uint8_t last, RegexArena* arena) {
  return arena->Bytes(ByteSet::Range(first, last));
}

RegexId HexDigits(uint8_t first, uint8_t last, RegexArena* arena) {
  ByteSet set;
  for (uint8_t digit = first; digit <= last; ++digit) {
    set.Add(static_cast<uint8_t>("0123456789abcdef"[digit]));
    set.Add(static_cast<uint8_t>("0123456789ABCDEF"[digit]));
  }
  return arena->Bytes(set);
}

std::vector<uint8_t> Utf8Of(uint32_t code_point) {
  std::string text;
  text::AppendUtf8(code_point, text);
  return {text.begin(), text.end()};
}

using Range = std::pair<uint32_t, uint32_t>;  // both ends in it

// What [first, last] has of each part.
template <typename Each>
void ForEachPart(std::span<const Range> parts, uint32_t first, uint32_t last, Each each) {
  for (const auto& [part_first, part_last] : parts) {
    const uint32_t from = std::max(first, part_first);
    const uint32_t to = std::min(last, part_last);
    if (from <= to) each(from, to);
  }
}

void AddUtf8(uint32_t first, uint32_t last, RegexArena* arena, std::vector<RegexId>* choices) {
  constexpr Range kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastCodePoint}};
  const Digits bytes = {0x80, 0xBF, RawBytes};
  ForEachPart(kLengths, first, last, [&](uint32_t from, uint32_t to) {
    choices->push_back(Between(Utf8Of(from), Utf8Of(to), bytes, arena));
  });
}

std::array<uint8_t, 4> Nibbles(uint32_t unit) {
  const auto nibble = [&](int shift) { return static_cast<uint8_t>(unit >> shift & 15); };
  return {nibble(12), nibble(8), nibble(4), nibble(0)};
}

// \uXXXX of one UTF-16 unit.
RegexId Unit(uint32_t first, uint32_t last, RegexArena* arena) {
  const RegexId digits = Between(Nibbles(first), Nibbles(last), {0, 15, HexDigits}, arena);
  return arena->Concat(arena->Literal("\\u"), digits);
}

void AddPairs(uint32_t first, uint32_t last, RegexArena* arena, std::vector<RegexId>* choices) {
  const auto add = [&](uint32_t high, uint32_t high_last, uint32_t low, uint32_t low_last) {
    choices->push_back(arena->Concat(Unit(0xD800 + high, 0xD800 + high_last, arena),
                                     Unit(0xDC00 + low, 0xDC00 + low_last, arena)));
  };
  const uint32_t high = (first - 0x10000) >> 10;
  const uint32_t high_last = (last - 0x10000) >> 10;
  const uint32_t low = first & 0x3FF;
  const uint32_t low_last = last & 0x3FF;
  if (high == high_last) return add(high, high, low, low_last);
  add(high, high, low, 0x3FF);
  if (high + 1 < high_last) add(high + 1, high_last - 1, 0, 0x3FF);
  add(high_last, high_last, 0, low_last);
}

// What JSON escapes with one letter.
constexpr std::pair<uint32_t, char> kShortEscapes[] = {
    {'"', '"'}, {'\\', '\\'}, {'/', '/'}, {8, 'b'}, {12, 'f'}, {10, 'n'}, {13, 'r'}, {9, 't'}};

void AddEscapes(uint32_t first, uint32_t last, RegexArena* arena, std::vector<RegexId>* choices) {
  for (const auto& [code_point, letter] : kShortEscapes) {
    if (code_point < first || code_point > last) continue;
    choices->push_back(arena->Literal(std::string("\\") + letter));
  }
  if (first < 0x10000) choices->push_back(Unit(first, std::min(last, 0xFFFFu), arena));
  if (last >= 0x10000) AddPairs(std::max(first, 0x10000u), last, arena, choices);
}

void AddRange(uint32_t first, uint32_t last, CharacterEncoding encoding, RegexArena* arena,
              std::vector<RegexId>* choices) {
  constexpr Range kScalars[] = {{0, 0xD7FF}, {0xE000, kLastCodePoint}};
  constexpr Range kRaw[] = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, kLastCodePoint}};
  ForEachPart(kScalars, first, last, [&](uint32_t from, uint32_t to) {
    if (encoding == CharacterEncoding::kUtf8) return AddUtf8(from, to, arena, choices);
    ForEachPart(kRaw, from, to, [&](uint32_t a, uint32_t b) { AddUtf8(a, b, arena, choices); });
    AddEscapes(from, to, arena, choices);
  });
}

}  // namespace

RegexId CodePoints(uint32_t first, uint32_t last, CharacterEncoding encoding, RegexArena* arena) {
  std::vector<RegexId> choices;
  AddRange(first, last, encoding, arena, &choices);
  return arena->Either(choices);
}

RegexId CharacterOf(const icu::UnicodeSet& set, CharacterEncoding encoding, RegexArena* arena) {
  constexpr int64_t kStepsOfARange = 20;  // measured: what a range costs, in steps of the arena
  arena->Charge(kStepsOfARange * set.getRangeCount());
  if (arena->exhausted()) return kNothing;
  std::vector<RegexId> choices;
  for (int32_t i = 0; i < set.getRangeCount(); ++i) {
    AddRange(static_cast<uint32_t>(set.getRangeStart(i)), static_cast<uint32_t>(set.getRangeEnd(i)),
             encoding, arena, &choices);
  }
  return arena->Either(choices);
}

RegexId AnyCharacter(CharacterEncoding encoding, RegexArena* arena) {
  return CodePoints(0, kLastCodePoint, encoding, arena);
}

RegexId AnyText(CharacterEncoding encoding, RegexArena* arena) {
  return arena->Repeat(AnyCharacter(encoding, arena), 0, -1);
}

RegexId EncodedText(std::string_view text, CharacterEncoding encoding, RegexArena* arena) {
  if (encoding == CharacterEncoding::kUtf8) return arena->Literal(text);
  std::vector<RegexId> characters;
  while (!text.empty()) {
    const auto [code_point, length] = text::DecodeWellFormed(text);
    characters.push_back(CodePoints(code_point, code_point, encoding, arena));
    text.remove_prefix(length);
  }
  return arena->Concat(characters);
}

}  // namespace thalweg::grammar
