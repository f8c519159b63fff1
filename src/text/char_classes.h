// Sets of characters by Unicode property, and the partition of all code points into the classes
// that a group of sets can tell apart. The tables come from ICU.
#pragma once

#include <unicode/uniset.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::text {

// The set named by \p{name}: a general category (L, Lu, P, ...), Any, or a script (Han, Greek).
Result<icu::UnicodeSet> PropertySet(std::string_view name);

// \s, \d and \w as the Oniguruma library defines them for Unicode text.
icu::UnicodeSet SpaceSet();
icu::UnicodeSet DigitSet();
icu::UnicodeSet WordSet();

// Adds what differs from a member by case only.
void CloseOverCase(icu::UnicodeSet& set);

// Maps each code point to a class such that two code points of one class are in the same sets.
class CharClasses {
 public:
  static constexpr int kMaxClasses = 254;

  // More than kMaxClasses classes is an error.
  static Result<CharClasses> Build(const std::vector<icu::UnicodeSet>& sets);

  int count() const { return static_cast<int>(members_.size()); }
  // Whether the characters of `char_class` are in sets[set].
  bool Contains(int char_class, int set) const { return members_[char_class][set]; }

  uint8_t OfAscii(uint8_t byte) const { return ascii_[byte]; }
  uint8_t Of(uint32_t code_point) const {
    return blocks_[(static_cast<size_t>(block_of_[code_point >> 8]) << 8) | (code_point & 0xFF)];
  }

 private:
  void Compress(const std::vector<uint8_t>& by_code_point);

  std::vector<std::vector<bool>> members_;  // [class][set]
  std::array<uint8_t, 128> ascii_{};
  std::vector<uint16_t> block_of_;  // [code point / 256]
  std::vector<uint8_t> blocks_;     // [block][256]
};

}  // namespace thalweg::text
