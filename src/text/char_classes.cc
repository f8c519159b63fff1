#include "text/char_classes.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <map>
#include <string>

namespace thalweg::text {
namespace {

constexpr uint32_t kCodePoints = 0x110000;

icu::UnicodeSet IntProperty(UProperty property, int32_t value) {
  UErrorCode error = U_ZERO_ERROR;
  icu::UnicodeSet set;
  set.applyIntPropertyValue(property, value, error);
  TW_CHECK(U_SUCCESS(error));  // only property values that ICU itself handed out come here
  return set;
}

}  // namespace

Result<icu::UnicodeSet> PropertySet(std::string_view name) {
  if (name == "Any") return icu::UnicodeSet(0, static_cast<UChar32>(kCodePoints - 1));
  const std::string key(name);
  // The mask property knows single categories and groups: L, Lu, Letter, Punctuation, ...
  const int32_t category = u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, key.c_str());
  if (category != UCHAR_INVALID_CODE) return IntProperty(UCHAR_GENERAL_CATEGORY_MASK, category);
  const int32_t script = u_getPropertyValueEnum(UCHAR_SCRIPT, key.c_str());
  if (script != UCHAR_INVALID_CODE) return IntProperty(UCHAR_SCRIPT, script);
  return base::Unsupported(
      fmt::format("\\p{{{}}} is neither a general category nor a script", name));
}

icu::UnicodeSet SpaceSet() { return IntProperty(UCHAR_WHITE_SPACE, 1); }

icu::UnicodeSet DigitSet() { return IntProperty(UCHAR_GENERAL_CATEGORY_MASK, U_GC_ND_MASK); }

icu::UnicodeSet WordSet() {
  icu::UnicodeSet set = IntProperty(UCHAR_ALPHABETIC, 1);
  set.addAll(IntProperty(UCHAR_GENERAL_CATEGORY_MASK, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK));
  return set;
}

void CloseOverCase(icu::UnicodeSet& set) {
  set.closeOver(USET_CASE_INSENSITIVE);
  set.removeAllStrings();  // "ss" for ß and the like: a set here matches one character
}

Result<CharClasses> CharClasses::Build(const std::vector<icu::UnicodeSet>& sets) {
  std::vector<uint32_t> starts = {0, kCodePoints};  // where membership may change
  for (const icu::UnicodeSet& set : sets) {
    for (int32_t i = 0; i < set.getRangeCount(); ++i) {
      starts.push_back(static_cast<uint32_t>(set.getRangeStart(i)));
      starts.push_back(static_cast<uint32_t>(set.getRangeEnd(i)) + 1);
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());

  CharClasses classes;
  std::map<std::vector<bool>, uint8_t> known;
  std::vector<uint8_t> by_code_point(kCodePoints);
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    std::vector<bool> member;
    for (const icu::UnicodeSet& set : sets) {
      member.push_back(set.contains(static_cast<UChar32>(starts[i])));
    }
    const auto [at, is_new] = known.try_emplace(member, static_cast<uint8_t>(known.size()));
    if (is_new) classes.members_.push_back(std::move(member));
    if (known.size() > kMaxClasses) return base::Unsupported("it uses too many character sets");
    std::fill(by_code_point.begin() + starts[i], by_code_point.begin() + starts[i + 1], at->second);
  }
  classes.Compress(by_code_point);
  return classes;
}

void CharClasses::Compress(const std::vector<uint8_t>& by_code_point) {
  std::copy_n(by_code_point.begin(), ascii_.size(), ascii_.begin());
  std::map<std::string, uint16_t> known;
  for (size_t start = 0; start < by_code_point.size(); start += 256) {
    const auto first = by_code_point.begin() + static_cast<std::ptrdiff_t>(start);
    const std::string block(first, first + 256);
    const auto [at, is_new] = known.try_emplace(block, static_cast<uint16_t>(known.size()));
    if (is_new) blocks_.insert(blocks_.end(), block.begin(), block.end());
    block_of_.push_back(at->second);
  }
}

}  // namespace thalweg::text
