// Regular languages that schemas use again and again, each made once.
#pragma once

#include <string>
#include <unordered_map>

#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/number_range.h"
#include "grammar/regex_arena.h"
#include "grammar/schema_model.h"

namespace thalweg::grammar {

// Text is what stands between the quotes of a JSON string.
class SchemaLanguages {
 public:
  SchemaLanguages(const Limits& limits, RegexArena* regexes)
      : limits_(limits), regexes_(*regexes) {}

  RegexId AnyText();
  // Text of so many characters; `length` is not none.
  RegexId OfLength(const Counts& length);
  // `text` in every spelling.
  RegexId Text(const std::string& text);
  // All text that is not in `text`.
  RegexId OtherText(RegexId text);
  Result<RegexId> Pattern(const std::string& pattern);
  Result<RegexId> Format(const std::string& format);
  Result<RegexId> Numbers(const NumberBounds& bounds);

 private:
  template <typename Make>
  Result<RegexId> Remember(std::string key, Make make);

  Limits limits_;
  RegexArena& regexes_;
  std::unordered_map<std::string, RegexId> known_;
};

}  // namespace thalweg::grammar
