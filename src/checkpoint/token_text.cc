#include <fmt/format.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/ustring.h>

#include "checkpoint/token_map.h"

namespace thalweg::checkpoint {
namespace {

constexpr UChar32 kSpaceHolder = 0xE000;  // stands for a token that is one space while trimming

Status IcuError(const char* what, UErrorCode code) {
  return base::Internal(fmt::format("ICU cannot {}: {}", what, u_errorName(code)));
}

Result<icu::UnicodeString> Normalize(const icu::UnicodeString& text,
                                     const icu::Normalizer2* (*instance)(UErrorCode&)) {
  UErrorCode code = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = instance(code);
  if (U_FAILURE(code)) return IcuError("load its normalisation data", code);
  icu::UnicodeString out = normalizer->normalize(text, code);
  if (U_FAILURE(code)) return IcuError("normalise a token", code);
  return out;
}

// The full lower-case mapping of one character on its own: a sigma never counts as final.
Status AppendLower(UChar32 c, icu::UnicodeString& out) {
  UChar source[2] = {};
  int32_t length = 0;
  U16_APPEND_UNSAFE(source, length, c);
  UChar lower[8] = {};
  UErrorCode code = U_ZERO_ERROR;
  const int32_t written = u_strToLower(lower, 8, source, length, "", &code);
  if (U_FAILURE(code)) return IcuError("lower a character", code);
  out.append(lower, 0, written);
  return {};
}

// Drops marks (general category M) and lowers the rest.
Result<icu::UnicodeString> StripAndLower(const icu::UnicodeString& text) {
  icu::UnicodeString out;
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const UChar32 c = text.char32At(i);
    if ((U_GET_GC_MASK(c) & U_GC_M_MASK) != 0) continue;
    TW_TRY(AppendLower(c, out));
  }
  return out;
}

bool IsFolded(UChar32 c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Each run of space, tab, CR and LF becomes one space.
icu::UnicodeString FoldSpaces(const icu::UnicodeString& text) {
  icu::UnicodeString out;
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const UChar32 c = text.char32At(i);
    if (!IsFolded(c)) {
      out.append(c);
    } else if (i == 0 || !IsFolded(text[i - 1])) {
      out.append(UChar{' '});
    }
  }
  return out;
}

// Without white space (the Unicode property) at both ends.
icu::UnicodeString Trim(const icu::UnicodeString& text) {
  int32_t begin = 0;
  int32_t end = text.length();
  while (begin < end && u_isUWhiteSpace(text[begin])) ++begin;
  while (end > begin && u_isUWhiteSpace(text[end - 1])) --end;
  return text.tempSubStringBetween(begin, end);
}

}  // namespace

Result<std::string> NormalizeTokenText(std::string_view text) {
  const auto source = icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  TW_ASSIGN(const icu::UnicodeString composed,
            Normalize(source, icu::Normalizer2::getNFKCInstance));
  TW_ASSIGN(const icu::UnicodeString decomposed,
            Normalize(composed, icu::Normalizer2::getNFDInstance));
  TW_ASSIGN(const icu::UnicodeString lowered, StripAndLower(decomposed));
  icu::UnicodeString folded = FoldSpaces(lowered);
  if (folded == icu::UnicodeString(UChar{' '})) folded = icu::UnicodeString(kSpaceHolder);
  icu::UnicodeString trimmed = Trim(folded);
  trimmed.findAndReplace(icu::UnicodeString(kSpaceHolder), icu::UnicodeString(UChar{' '}));
  std::string out;
  trimmed.toUTF8String(out);
  return out;
}

}  // namespace thalweg::checkpoint
