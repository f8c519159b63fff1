#include "tools/lint/blank.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace thalweg::tools::lint {
namespace {

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where a // comment ends: at its line's end, or a later one when the line is continued.
size_t LineCommentEnd(std::string_view text, size_t at) {
  size_t end = text.find('\n', at);
  while (end != std::string_view::npos && text[end - 1] == '\\') end = text.find('\n', end + 1);
  return std::min(end, text.size());
}

size_t BlockCommentEnd(std::string_view text, size_t at) {
  const size_t end = text.find("*/", at + 2);
  return end == std::string_view::npos ? text.size() : end + 2;
}

// Past the closing quote; past the opening one alone when the line ends first, as in `#error
// don't`.
size_t QuotedEnd(std::string_view text, size_t at) {
  for (size_t i = at + 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == text[at]) {
      return i + 1;
    }
  }
  return at + 1;
}

std::string_view WordBefore(std::string_view text, size_t at) {
  size_t begin = at;
  while (begin > 0 && IsWordChar(text[begin - 1])) --begin;
  return text.substr(begin, at - begin);
}

bool OpensRawString(std::string_view text, size_t quote) {
  const std::string_view prefix = WordBefore(text, quote);
  return prefix == "R" || prefix == "LR" || prefix == "uR" || prefix == "UR" || prefix == "u8R";
}

size_t RawStringEnd(std::string_view text, size_t quote) {
  const size_t open = text.find('(', quote);
  if (open == std::string_view::npos) return text.size();
  const std::string close =
      ")" + std::string(text.substr(quote + 1, open - quote - 1)) + std::string("\"");
  const size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

// 1'000 and 0xff'00: the quote belongs to a word that starts with a digit.
bool IsDigitSeparator(std::string_view text, size_t quote) {
  size_t begin = quote;
  while (begin > 0 && (IsWordChar(text[begin - 1]) || text[begin - 1] == '\'')) --begin;
  return begin < quote && std::isdigit(static_cast<unsigned char>(text[begin])) != 0;
}

// The end of the comment or literal that starts at `at`; `at` itself when none does.
size_t NonCodeEnd(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("//")) return LineCommentEnd(text, at);
  if (rest.starts_with("/*")) return BlockCommentEnd(text, at);
  if (rest.front() == '"') {
    return OpensRawString(text, at) ? RawStringEnd(text, at) : QuotedEnd(text, at);
  }
  if (rest.front() == '\'' && !IsDigitSeparator(text, at)) return QuotedEnd(text, at);
  return at;
}

void BlankRange(std::string& text, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (text[i] != '\n') text[i] = ' ';
  }
}

void BlankNonCode(std::string& code, size_t begin, size_t end) {
  const char first = code[begin];
  BlankRange(code, begin, end);
  if (first == '/' || end - begin < 2) return;
  code[begin] = first;
  code[begin + 1] = first;
}

size_t NextLine(std::string_view text, size_t at) {
  const size_t end = text.find('\n', at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

// The end of the directive that starts on the line at `at`, its continuations included.
size_t DirectiveEnd(std::string_view code, size_t at) {
  size_t end = NextLine(code, at);
  while (end < code.size() && end >= 2 && code[end - 1] == '\n' && code[end - 2] == '\\') {
    end = NextLine(code, end);
  }
  return end;
}

// "if", "else", ... for a directive line, "" for any other.
std::string_view DirectiveName(std::string_view line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string_view::npos || line[at] != '#') return {};
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string_view::npos) return "#";
  size_t end = at;
  while (end < line.size() && IsWordChar(line[end])) ++end;
  return line.substr(at, end - at);
}

// Follows #if nesting: for each open #if, whether we are past its first branch.
void FollowBranches(std::string_view name, std::vector<bool>& past_first) {
  if (name.starts_with("if")) past_first.push_back(false);
  if (name.starts_with("el") && !past_first.empty()) past_first.back() = true;
  if (name == "endif" && !past_first.empty()) past_first.pop_back();
}

bool Any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

}  // namespace

std::string BlankCommentsAndLiterals(std::string_view text) {
  std::string code(text);
  for (size_t at = 0; at < text.size();) {
    const size_t end = NonCodeEnd(text, at);
    BlankNonCode(code, at, end);
    at = std::max(end, at + 1);
  }
  return code;
}

std::string BlankDirectives(std::string_view code) {
  std::string out(code);
  for (size_t at = 0; at < code.size();) {
    const size_t line_end = NextLine(code, at);
    const bool directive = !DirectiveName(code.substr(at, line_end - at)).empty();
    const size_t end = directive ? DirectiveEnd(code, at) : line_end;
    if (directive) BlankRange(out, at, end);
    at = end;
  }
  return out;
}

std::string BlankElseBranches(std::string_view code) {
  std::string out(code);
  std::vector<bool> past_first;
  for (size_t at = 0; at < code.size();) {
    const size_t end = NextLine(code, at);
    FollowBranches(DirectiveName(code.substr(at, end - at)), past_first);
    if (Any(past_first)) BlankRange(out, at, end);
    at = end;
  }
  return out;
}

}  // namespace thalweg::tools::lint
