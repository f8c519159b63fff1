#include "tools/lint/hygiene.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace thalweg::tools::lint {
namespace {

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Code points, not bytes: a line of Chinese text is as long as it looks.
size_t Columns(std::string_view line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
  }));
}

bool ContainsWord(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordChar(line[at - 1]);
    if (begins && (end == line.size() || !IsWordChar(line[end]))) return true;
  }
  return false;
}

// In pieces, so that this file does not find itself.
constexpr std::array<std::string_view, 3> kUnfinished = {
    "TO"
    "DO",
    "FIX"
    "ME",
    "XX"
    "X"};
constexpr std::array<std::string_view, 5> kMachinePaths = {
    "/ho"
    "me/",
    "/ro"
    "ot/",
    "/wo"
    "rk/",
    "/Us"
    "ers/",
    "/fa"
    "rm/"};
constexpr std::array<std::string_view, 6> kPlaceWords = {
    "house"
    ".md",
    "shared/"
    "spec",
    "shared/"
    "golden",
    "shared/"
    "nano",
    "co-authored"
    "-by",
    "language "
    "model wrote"};

void CheckLine(const SourceFile& file, std::string_view line, int number, Findings& findings) {
  const auto complain = [&](std::string message) {
    findings.push_back({file.path, number, std::move(message)});
  };
  if (line.ends_with(' ') || line.ends_with('\t') || line.ends_with('\r')) {
    complain("trailing blank");
  }
  for (std::string_view word : kUnfinished) {
    if (ContainsWord(line, word)) complain(fmt::format("{}: finish it or open an issue", word));
  }
  if (!file.is_cpp()) return;
  if (line.find('\t') != std::string_view::npos) complain("tab");
  if (const size_t columns = Columns(line); columns > kMaxColumns) {
    complain(fmt::format("{} columns, the limit is {}", columns, kMaxColumns));
  }
}

void CheckOpening(const SourceFile& file, Findings& findings) {
  const bool comment = file.text.starts_with("//") || file.text.starts_with("/*");
  if (file.is_header() && !comment) {
    findings.push_back({file.path, 1, "a header opens with a comment that says what it is for"});
  }
  if (file.is_test_program() && !comment) {
    findings.push_back({file.path, 1, "a test file opens with the property it proves"});
  }
}

bool IsMachinePath(std::string_view line, std::string_view path) {
  for (size_t at = line.find(path); at != std::string_view::npos; at = line.find(path, at + 1)) {
    // "docs/work/x" and "https://example.com/work/" are no paths of a machine.
    const char before = at == 0 ? ' ' : line[at - 1];
    if (!IsWordChar(before) && before != '.' && before != '-' && before != '}') return true;
  }
  return false;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return lower;
}

}  // namespace

void CheckForm(const SourceFile& file, Findings& findings) {
  int number = 0;
  for (std::string_view line : SplitLines(file.text)) CheckLine(file, line, ++number, findings);
  if (!file.text.empty() && !file.text.ends_with('\n')) {
    findings.push_back({file.path, number, "the last line has no end"});
  }
  if (!file.is_cpp()) return;
  CheckOpening(file, findings);
  // x.inc.h is a body that is included once for each instruction set.
  const bool guarded = file.code.find("#pragma once") != std::string::npos;
  if (file.is_header() && !file.path.ends_with(".inc.h") && !guarded) {
    findings.push_back({file.path, 1, "missing #pragma once"});
  }
}

void CheckTraces(const SourceFile& file, Findings& findings) {
  int number = 0;
  for (std::string_view line : SplitLines(file.text)) {
    ++number;
    for (std::string_view path : kMachinePaths) {
      if (!IsMachinePath(line, path)) continue;
      findings.push_back({file.path, number, fmt::format("{} is a path of one machine", path)});
    }
    const std::string lower = Lower(line);
    for (std::string_view word : kPlaceWords) {
      if (lower.find(word) == std::string::npos) continue;
      findings.push_back(
          {file.path, number,
           fmt::format("\"{}\" means nothing to a reader of this repository", word)});
    }
  }
}

}  // namespace thalweg::tools::lint
