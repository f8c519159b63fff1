// The characters of JSON between values, under a policy of white space.
#pragma once

#include "grammar/regex_arena.h"
#include "grammar/schema.h"
#include "grammar/schema_list.h"

namespace thalweg::grammar {

// Characters of white space that may stand in a row; enough for a line break and an indentation.
inline constexpr int64_t kMostWhitespace = 40;

struct JsonPunctuation {
  RegexId colon = kNothing;
  ListFrame object = {};
  ListFrame array = {};
};

JsonPunctuation MakePunctuation(SchemaOptions::Whitespace policy, RegexArena* regexes);

}  // namespace thalweg::grammar
