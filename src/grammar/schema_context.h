// What the steps of compiling one schema share.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/rules.h"
#include "grammar/schema.h"
#include "grammar/schema_languages.h"
#include "grammar/schema_model.h"

namespace thalweg::grammar {

struct SchemaContext {
  using Clock = std::chrono::steady_clock;

  SchemaContext(const SchemaOptions& the_options, const Limits& the_limits, Rules* the_rules);
  // An error when time or one of the limits of size is used up; cheap enough for inner loops.
  Status CheckLimits();

  SchemaOptions options;
  Limits limits;
  Rules& rules;
  RegexArena& regexes;
  SchemaLanguages languages;
  SchemaTable table;
  Clock::time_point deadline;
  int64_t checks = 0;
};

}  // namespace thalweg::grammar
