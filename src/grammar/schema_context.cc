#include "grammar/schema_context.h"

#include <fmt/format.h>

namespace thalweg::grammar {

SchemaContext::SchemaContext(const SchemaOptions& the_options, const Limits& the_limits,
                             Rules* the_rules)
    : options(the_options),
      limits(the_limits),
      rules(*the_rules),
      regexes(the_rules->regexes()),
      languages(the_limits, &the_rules->regexes()),
      deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(the_limits.compile_seconds))) {}

Status SchemaContext::CheckLimits() {
  if (table.size() > limits.symbols || regexes.size() > limits.expressions) {
    return base::OutOfRange("schema: too large; split it, or make its counts smaller");
  }
  // The clock is read at every 16th call.
  if (++checks % 16 == 1 && Clock::now() > deadline) {
    return base::OutOfRange(
        fmt::format("schema: not compiled within {} s", limits.compile_seconds));
  }
  return {};
}

}  // namespace thalweg::grammar
