// thalweg grammar check: whether a text is what a constraint asks for, and if
// not, from where on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tools/grammar/vocabulary.h"

namespace thalweg::tools {

struct GrammarVerdict {
  enum class Kind : uint8_t { kAccepted, kRejected, kIncomplete };
  Kind kind = Kind::kAccepted;
  int64_t bytes = 0;                   // of the text
  int64_t tokens = 0;                  // accepted
  int64_t at = 0;                      // of the first byte that may not come; what there is of the
                                       // text otherwise
  bool may_end = false;                // the text up to there is complete
  std::string next = {};               // bytes that may come at that place
  int64_t next_tokens = 0;             // how many tokens may
  std::vector<std::string> some = {};  // text of a few of these, the longest
};

// Takes the text token by token, under the mask of every step. so_args:
// engine/constraints.h. Errors: what is wrong with them; a mask and the
// recogniser behind it that do not agree.
Result<GrammarVerdict> CheckText(const GrammarVocabulary& vocabulary, const std::string& so_args,
                                 std::string_view text);

base::Json ToJson(const GrammarVerdict& verdict);
// For people; `text` is what was checked.
std::string Describe(const GrammarVerdict& verdict, std::string_view text);

}  // namespace thalweg::tools
