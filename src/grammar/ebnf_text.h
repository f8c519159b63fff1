// Reads a grammar from left to right; places are lines and columns.
#pragma once

#include <unicode/uniset.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "grammar/ebnf_tree.h"
#include "grammar/limits.h"

namespace thalweg::grammar {

class EbnfText {
 public:
  EbnfText(std::string_view text, const Limits& limits) : text_(text), limits_(&limits) {}

  size_t offset() const { return offset_; }
  void set_offset(size_t offset) { offset_ = offset; }
  bool done() const { return offset_ >= text_.size(); }
  char Peek(size_t ahead = 0) const {
    return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0';
  }
  std::string_view rest() const { return text_.substr(offset_); }
  void Skip(size_t bytes) { offset_ += bytes; }
  bool TakeIf(std::string_view token);
  // Space, line ends and comments: #, // and /* */. `#x20` is a character, not a comment.
  Status SkipSpace();
  std::string TakeName();  // letters, digits, - and _; "" where none starts
  Result<int64_t> TakeNumber();
  // {m}, {m,}, {m,n} after the brace; both ends are checked against the limits.
  Status TakeCounts(EbnfNode* repeat);
  uint32_t TakeCodePoint();  // not done()

  // After an opening quote, up to and with the closing one; escapes are resolved.
  Result<std::string> TakeQuoted(char quote);
  // After `[`, up to and with `]`.
  Result<icu::UnicodeSet> TakeClass();
  bool AtHexCharacter() const;  // #x and a hexadecimal digit
  Result<uint32_t> TakeHexCharacter();

  // "grammar, line 3, column 7: what", of the place at `offset`.
  Status Error(size_t offset, std::string_view what) const;
  Status Unsupported(size_t offset, std::string_view what) const;
  Status CheckDepth(int64_t depth) const;

 private:
  std::string Place(size_t offset, std::string_view what) const;
  Result<uint32_t> TakeEscape();
  Result<uint32_t> TakeHex(size_t least, size_t most);
  Result<icu::UnicodeSet> TakeClassAtom();

  std::string_view text_;
  const Limits* limits_;
  size_t offset_ = 0;
};

}  // namespace thalweg::grammar
