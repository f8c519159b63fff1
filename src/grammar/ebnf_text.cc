#include "grammar/ebnf_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/regex_class.h"
#include "text/utf8.h"

namespace thalweg::grammar {
namespace {

constexpr uint32_t kLastCodePoint = 0x10FFFF;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
uint32_t HexValue(char c) {
  return static_cast<uint32_t>(IsDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

}  // namespace

std::string EbnfText::Place(size_t offset, std::string_view what) const {
  const std::string_view before = text_.substr(0, std::min(offset, text_.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("grammar, line {}, column {}: {}", line, before.size() - line_start + 1, what);
}

Status EbnfText::Error(size_t offset, std::string_view what) const {
  return base::InvalidArgument(Place(offset, what));
}

Status EbnfText::Unsupported(size_t offset, std::string_view what) const {
  return base::Unsupported(Place(offset, what));
}

Status EbnfText::CheckDepth(int64_t depth) const {
  if (depth <= limits_->nesting) return {};
  return Error(offset_, fmt::format("groups are nested more than {} deep", limits_->nesting));
}

bool EbnfText::TakeIf(std::string_view token) {
  if (!rest().starts_with(token)) return false;
  offset_ += token.size();
  return true;
}

bool EbnfText::AtHexCharacter() const { return Peek() == '#' && Peek(1) == 'x' && IsHex(Peek(2)); }

Status EbnfText::SkipSpace() {
  while (!done()) {
    if (IsSpace(Peek())) {
      Skip(1);
    } else if ((Peek() == '#' && !AtHexCharacter()) || rest().starts_with("//")) {
      Skip(std::min(rest().find('\n'), rest().size()));
    } else if (rest().starts_with("/*")) {
      const size_t end = rest().find("*/", 2);
      if (end == std::string_view::npos) return Error(offset_, "this comment has no end");
      Skip(end + 2);
    } else {
      break;
    }
  }
  return {};
}

std::string EbnfText::TakeName() {
  size_t length = 0;
  if (IsLetter(Peek()) || Peek() == '_') {
    while (IsLetter(Peek(length)) || IsDigit(Peek(length)) || Peek(length) == '_' ||
           Peek(length) == '-') {
      ++length;
    }
  }
  // `a->b`: the hyphen belongs to the arrow.
  if (length > 1 && Peek(length - 1) == '-' && Peek(length) == '>') --length;
  std::string name(rest().substr(0, length));
  Skip(length);
  return name;
}

Result<int64_t> EbnfText::TakeNumber() {
  const size_t start = offset_;
  if (!IsDigit(Peek())) return Error(start, "a number is expected here");
  int64_t value = 0;
  for (; IsDigit(Peek()); Skip(1)) {
    value = value * 10 + (Peek() - '0');
    if (value > limits_->repetition) {
      return Error(start, fmt::format("more than {} repetitions", limits_->repetition));
    }
  }
  return value;
}

Status EbnfText::TakeCounts(EbnfNode* repeat) {
  const size_t start = offset_;
  TW_TRY(SkipSpace());
  TW_ASSIGN(repeat->min, TakeNumber());
  repeat->max = repeat->min;
  TW_TRY(SkipSpace());
  if (TakeIf(",")) {
    TW_TRY(SkipSpace());
    repeat->max = -1;
    if (IsDigit(Peek())) {
      TW_ASSIGN(repeat->max, TakeNumber());
    }
    TW_TRY(SkipSpace());
  }
  if (!TakeIf("}")) return Error(offset_, "} expected after the counts of a repetition");
  if (repeat->max >= 0 && repeat->max < repeat->min) {
    return Error(start, "the counts of this repetition are the wrong way round");
  }
  return {};
}

uint32_t EbnfText::TakeCodePoint() {
  const auto [code_point, length] = text::DecodeWellFormed(rest());
  Skip(length);
  return code_point;
}

Result<uint32_t> EbnfText::TakeHex(size_t least, size_t most) {
  const size_t start = offset_;
  uint32_t value = 0;
  size_t digits = 0;
  for (; digits < most && IsHex(Peek()); ++digits, Skip(1)) value = value * 16 + HexValue(Peek());
  if (digits < least) {
    return Error(start, fmt::format("{} hexadecimal digits expected here", least));
  }
  if (value > kLastCodePoint || (value >= 0xD800 && value < 0xE000)) {
    return Error(start, "this is no Unicode character");
  }
  return value;
}

// After a backslash.
Result<uint32_t> EbnfText::TakeEscape() {
  constexpr std::string_view kItself = "\\\"'[]-^/.*+?(){}|$ #";
  const size_t start = offset_;
  if (done()) return Error(start, "the text ends after a backslash");
  const char letter = Peek();
  Skip(1);
  switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'b': return '\b';
    case '0': return 0u;
    case 'x': return TakeHex(2, 2);
    case 'u': return TakeHex(4, 4);
    case 'U': return TakeHex(8, 8);
    default: break;
  }
  if (kItself.find(letter) != std::string_view::npos) return static_cast<uint32_t>(letter);
  return Error(start, "no such escape; \\n, \\x41, \\u0041 and \\\\ are some");
}

Result<std::string> EbnfText::TakeQuoted(char quote) {
  const size_t start = offset_ - 1;
  std::string content;
  while (!done() && Peek() != quote && Peek() != '\n') {
    if (TakeIf("\\")) {
      TW_ASSIGN(const uint32_t code_point, TakeEscape());
      text::AppendUtf8(code_point, content);
    } else {
      text::AppendUtf8(TakeCodePoint(), content);
    }
  }
  if (!TakeIf(std::string_view(&quote, 1))) return Error(start, "this literal has no end");
  return content;
}

Result<uint32_t> EbnfText::TakeHexCharacter() {
  Skip(2);
  return TakeHex(1, 8);
}

Result<icu::UnicodeSet> EbnfText::TakeClassAtom() {
  if (AtHexCharacter()) {
    TW_ASSIGN(const uint32_t code_point, TakeHexCharacter());
    return OneCharacter(code_point);
  }
  if (Peek() != '\\') return OneCharacter(TakeCodePoint());
  constexpr std::string_view kSets = "dDwWsSp";
  if (kSets.find(Peek(1)) != std::string_view::npos && Peek(1) != '\0') {
    Skip(1);
    RegexCursor cursor(rest(), RegexDialect::kWhole);
    const auto set = cursor.TakeEscape(true);
    if (!set.ok()) return Error(offset_, set.status().message());
    Skip(cursor.offset());
    return set;
  }
  Skip(1);
  TW_ASSIGN(const uint32_t code_point, TakeEscape());
  return OneCharacter(code_point);
}

Result<icu::UnicodeSet> EbnfText::TakeClass() {
  const size_t start = offset_ - 1;
  const bool negative = TakeIf("^");
  icu::UnicodeSet set;
  while (!done() && Peek() != ']' && Peek() != '\n') {
    const size_t at = offset_;
    TW_ASSIGN(icu::UnicodeSet atom, TakeClassAtom());
    if (Peek() == '-' && Peek(1) != ']' && atom.size() == 1) {
      Skip(1);
      if (done()) break;
      TW_ASSIGN(const icu::UnicodeSet last, TakeClassAtom());
      if (last.size() != 1 || last.charAt(0) < atom.charAt(0)) {
        return Error(at, "the range is the wrong way round");
      }
      atom.add(atom.charAt(0), last.charAt(0));
    }
    set.addAll(atom);
  }
  if (!TakeIf("]")) return Error(start, "this class has no end; ] is missing");
  return negative ? set.complement() : set;
}

}  // namespace thalweg::grammar
