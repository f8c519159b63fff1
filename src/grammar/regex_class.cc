#include "grammar/regex_class.h"

#include <fmt/format.h>

#include <string>

#include "grammar/regex_tree.h"
#include "text/char_classes.h"
#include "text/utf8.h"

namespace thalweg::grammar {
namespace {

constexpr uint32_t kLastCodePoint = 0x10FFFF;

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

std::optional<uint32_t> HexValue(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint32_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<uint32_t>(c - 'A' + 10);
  return std::nullopt;
}

bool IsAsciiLetterOrDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

icu::UnicodeSet SetOf(const char* pattern) {
  UErrorCode error = U_ZERO_ERROR;
  return icu::UnicodeSet(icu::UnicodeString::fromUTF8(pattern), error);
}

}  // namespace

icu::UnicodeSet OneCharacter(uint32_t code_point) {
  return icu::UnicodeSet(static_cast<UChar32>(code_point), static_cast<UChar32>(code_point));
}

void FoldCase(icu::UnicodeSet* set) { text::CloseOverCase(*set); }

icu::UnicodeSet DotSet(RegexDialect dialect, bool with_newline) {
  icu::UnicodeSet all(0, static_cast<UChar32>(kLastCodePoint));
  if (with_newline) return all;
  all.remove('\n');
  // ECMA 262 LineTerminator.
  if (dialect == RegexDialect::kSearch) all.remove('\r').remove(0x2028, 0x2029);
  return all;
}

Status RegexError(size_t offset, std::string_view what) {
  return base::InvalidArgument(fmt::format("regular expression, byte {}: {}", offset, what));
}

Status RegexUnsupported(size_t offset, std::string_view what) {
  return base::Unsupported(fmt::format("regular expression, byte {}: {}", offset, what));
}

Status RegexCursor::Error(std::string_view what) const { return RegexError(offset_, what); }

bool RegexCursor::TakeIf(std::string_view text) {
  if (!rest().starts_with(text)) return false;
  offset_ += text.size();
  return true;
}

uint32_t RegexCursor::TakeCodePoint() {
  const auto [code_point, length] = text::DecodeWellFormed(rest());
  offset_ += length;
  return code_point;
}

// \d \w \s and their complements. ECMA's \s is Unicode's; RE2's is ASCII without \v.
std::optional<icu::UnicodeSet> RegexCursor::NamedSet(char letter) const {
  static const icu::UnicodeSet digits = SetOf("[0-9]");
  static const icu::UnicodeSet words = SetOf("[0-9A-Za-z_]");
  static const icu::UnicodeSet ascii_spaces = SetOf("[\\u0009\\u000A\\u000C\\u000D\\u0020]");
  static const icu::UnicodeSet spaces = SetOf("[\\u0009-\\u000D\\u2028\\u2029\\uFEFF\\p{Zs}]");
  icu::UnicodeSet set;
  switch (letter | 0x20) {
    case 'd': set = digits; break;
    case 'w': set = words; break;
    case 's': set = ecma() ? spaces : ascii_spaces; break;
    default: return std::nullopt;
  }
  const bool upper = letter < 'a';
  return upper ? set.complement() : set;
}

std::optional<uint32_t> RegexCursor::ControlCharacter(char letter) const {
  switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'a': return ecma() ? std::nullopt : std::optional<uint32_t>('\a');
    default: return std::nullopt;
  }
}

Result<uint32_t> RegexCursor::TakeHex(size_t least, size_t most) {
  uint32_t value = 0;
  size_t digits = 0;
  for (; digits < most && HexValue(Peek()); ++digits, ++offset_) {
    value = value * 16 + *HexValue(Peek());
  }
  if (digits < least) return Error(fmt::format("{} hexadecimal digits expected here", least));
  return value;
}

Result<uint32_t> RegexCursor::TakeBracedHex() {
  uint32_t value = 0;
  bool any = false;
  for (; HexValue(Peek()); ++offset_, any = true) {
    value = value * 16 + *HexValue(Peek());
    if (value > kLastCodePoint) return Error("the code point is above 10FFFF");
  }
  if (!any || !TakeIf("}")) return Error("hexadecimal digits and } expected here");
  return value;
}

// After \u.
Result<uint32_t> RegexCursor::TakeUnicodeEscape() {
  if (TakeIf("{")) return TakeBracedHex();
  TW_ASSIGN(const uint32_t first, TakeHex(4, 4));
  const bool lead = first >= 0xD800 && first < 0xDC00;
  const size_t before = offset_;
  if (lead && TakeIf("\\u") && Peek() != '{') {
    TW_ASSIGN(const uint32_t second, TakeHex(4, 4));
    if (second >= 0xDC00 && second < 0xE000) {
      return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    }
  }
  offset_ = before;
  return first;
}

// RE2: \0, and \1 to \7 with another octal digit; at most three digits.
Result<uint32_t> RegexCursor::TakeOctal(char first) {
  auto value = static_cast<uint32_t>(first - '0');
  for (int i = 0; i < 2 && IsOctal(Peek()); ++i, ++offset_) {
    value = value * 8 + static_cast<uint32_t>(Peek() - '0');
  }
  return value;
}

// After \p or \P.
Result<icu::UnicodeSet> RegexCursor::TakeProperty(bool negative) {
  std::string name;
  if (TakeIf("{")) {
    if (TakeIf("^")) negative = !negative;
    const size_t end = rest().find('}');
    if (end == std::string_view::npos) return Error("} expected after the name of a property");
    name = std::string(rest().substr(0, end));
    offset_ += end + 1;
  } else if (!done()) {
    name = std::string(1, Peek());
    ++offset_;
  }
  for (const char c : name) {
    if (!IsAsciiLetterOrDigit(c) && c != '_' && c != '=' && c != ' ' && c != '-') name.clear();
  }
  const auto known = properties_.find(name);
  if (known != properties_.end()) {
    icu::UnicodeSet set = known->second;
    return negative ? set.complement() : set;
  }
  UErrorCode error = U_ZERO_ERROR;
  const std::string pattern = "[\\p{" + name + "}]";
  icu::UnicodeSet set(icu::UnicodeString::fromUTF8(pattern), error);
  if (name.empty() || U_FAILURE(error)) {
    return Error("no Unicode property of this name; \\p{L}, \\p{Lu} or \\p{Greek} are some");
  }
  properties_.emplace(name, set);
  return negative ? set.complement() : set;
}

Result<icu::UnicodeSet> RegexCursor::TakeEscape(bool in_class) {
  if (done()) return Error("the pattern ends after a backslash");
  const char letter = Peek();
  if (const auto named = NamedSet(letter)) {
    ++offset_;
    return *named;
  }
  if (letter == 'p' || letter == 'P') {
    ++offset_;
    return TakeProperty(letter == 'P');
  }
  if (const auto control = ControlCharacter(letter)) {
    ++offset_;
    return OneCharacter(*control);
  }
  TW_ASSIGN(const uint32_t code_point, TakeCharacterEscape(letter, in_class));
  return OneCharacter(code_point);
}

Result<uint32_t> RegexCursor::TakeCharacterEscape(char letter, bool in_class) {
  if (letter == 'b' && in_class && ecma()) {
    ++offset_;
    return '\b';
  }
  if (letter == 'x') {
    ++offset_;
    return !ecma() && TakeIf("{") ? TakeBracedHex() : TakeHex(2, 2);
  }
  if (letter == 'u' && ecma()) {
    ++offset_;
    return TakeUnicodeEscape();
  }
  if (letter == 'c' && ecma() && offset_ + 1 < pattern_.size()) {
    const char control = pattern_[offset_ + 1];
    if (!IsAsciiLetterOrDigit(control) || control <= '9') return Error("\\c needs a letter");
    offset_ += 2;
    return static_cast<uint32_t>(control) % 32;
  }
  if (letter >= '0' && letter <= '9') return TakeDigitEscape(letter);
  if (IsAsciiLetterOrDigit(letter)) return Error(fmt::format("\\{} is no escape", letter));
  return TakeCodePoint();
}

Result<uint32_t> RegexCursor::TakeDigitEscape(char digit) {
  const char next = offset_ + 1 < pattern_.size() ? pattern_[offset_ + 1] : '\0';
  const bool octal = IsOctal(digit) && (digit == '0' || IsOctal(next));
  if (ecma() ? digit != '0' || (next >= '0' && next <= '9') : !octal) {
    return RegexUnsupported(offset_, "back-references are not regular; write the group again");
  }
  ++offset_;
  return ecma() ? Result<uint32_t>(0u) : TakeOctal(digit);
}

// After `[:`, up to and with `:]`.
Result<icu::UnicodeSet> RegexCursor::TakePosixClass() {
  struct Named {
    const char* name;
    const char* set;
  };
  constexpr Named kClasses[] = {
      {"alnum", "[0-9A-Za-z]"},
      {"alpha", "[A-Za-z]"},
      {"ascii", "[\\u0000-\\u007F]"},
      {"blank", "[\\u0009\\u0020]"},
      {"cntrl", "[\\u0000-\\u001F\\u007F]"},
      {"digit", "[0-9]"},
      {"graph", "[\\u0021-\\u007E]"},
      {"lower", "[a-z]"},
      {"print", "[\\u0020-\\u007E]"},
      {"punct", "[\\u0021-\\u002F\\u003A-\\u0040\\u005B-\\u0060\\u007B-\\u007E]"},
      {"space", "[\\u0009-\\u000D\\u0020]"},
      {"upper", "[A-Z]"},
      {"word", "[0-9A-Za-z_]"},
      {"xdigit", "[0-9A-Fa-f]"}};
  const bool negative = TakeIf("^");
  for (const Named& known : kClasses) {
    if (!TakeIf(std::string(known.name) + ":]")) continue;
    icu::UnicodeSet set = SetOf(known.set);
    return negative ? set.complement() : set;
  }
  return Error("no class of this name; [:alpha:], [:digit:] and [:space:] are some");
}

Result<icu::UnicodeSet> RegexCursor::TakeClassAtom() {
  if (!ecma() && TakeIf("[:")) return TakePosixClass();
  if (TakeIf("\\")) return TakeEscape(true);
  return OneCharacter(TakeCodePoint());
}

Result<icu::UnicodeSet> RegexCursor::TakeClass(bool fold_case) {
  const size_t start = offset_;
  const bool negative = TakeIf("^");
  icu::UnicodeSet set;
  // RE2 takes a ] that comes first as a character; ECMA's [] is the empty class.
  for (bool first = !ecma(); first || Peek() != ']'; first = false) {
    if (done()) return RegexError(start, "this class has no end; ] is missing");
    TW_ASSIGN(icu::UnicodeSet atom, TakeClassAtom());
    const std::string_view after = rest();
    const bool range = after.size() >= 2 && after[0] == '-' && after[1] != ']';
    if (range && atom.size() == 1) {
      const size_t at = offset_;
      Skip(1);
      TW_ASSIGN(const icu::UnicodeSet last, TakeClassAtom());
      if (last.size() != 1) return RegexError(at, "a range of a class ends in one character");
      if (last.charAt(0) < atom.charAt(0))
        return RegexError(at, "the range is the wrong way round");
      atom.add(atom.charAt(0), last.charAt(0));
    }
    set.addAll(atom);
  }
  if (done()) return RegexError(start, "this class has no end; ] is missing");
  Skip(1);
  if (fold_case) FoldCase(&set);
  return negative ? set.complement() : set;
}

}  // namespace thalweg::grammar
