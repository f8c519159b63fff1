// When an answer counts as the expected one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::tools::eval {

// What of a text is compared.
enum class Extract {
  kText,    // all of it
  kLine,    // the first line that is not blank
  kNumber,  // the last number, by its value: "1,346.50" is 1346.5
  kJson,    // as a JSON value: white space and the order of members do not count
};

enum class Match { kEqual, kPrefix, kContains };

struct AnswerRule {
  Extract extract = Extract::kText;
  Match match = Match::kEqual;    // how the expected text must be found in the answer
  bool fold_space = true;         // runs of white space are one blank, none at the ends
  bool fold_case = false;         // of ASCII letters
  bool drop_punctuation = false;  // of ASCII
  bool drop_articles = false;     // the words a, an, the

  bool operator==(const AnswerRule&) const = default;
};

// "space", "case", "punctuation", "articles"; the list replaces the defaults.
Status SetNormalisation(const std::vector<std::string>& names, AnswerRule* rule);
Result<Extract> ParseExtract(std::string_view name);  // "text", "line", "number", "json"
Result<Match> ParseMatch(std::string_view name);      // "equal", "prefix", "contains"

// `text` as it is compared; an error when it has nothing to extract.
Result<std::string> Comparable(std::string_view text, const AnswerRule& rule);

// Whether `answer` is one of `expected`. What of the answer cannot be extracted matches nothing.
bool IsRight(std::string_view answer, const std::vector<std::string>& expected,
             const AnswerRule& rule);

}  // namespace thalweg::tools::eval
