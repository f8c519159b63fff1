// Any structure and any list of tools is a grammar or an error, in bounded time and memory.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "grammar/constraint.h"
#include "grammar/tool_calls.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg;
  using namespace thalweg::grammar;
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Limits limits;
  limits.source_bytes = 4000;
  limits.expressions = 50000;
  limits.symbols = 50000;
  limits.repetition = 1000;
  if (data[0] % 2 == 0) {
    Constraint constraint;
    constraint.kind = ConstraintKind::kStructural;
    constraint.content = text;
    static_cast<void>(CompileConstraint(constraint, nullptr, limits).ok());
    return 0;
  }
  const auto tools = base::ParseJson(text, "tools");
  if (!tools.ok() || text.size() > 4000) return 0;
  ToolCallOptions options;
  options.choice =
      data[0] % 4 == 1 ? ToolCallOptions::Choice::kAuto : ToolCallOptions::Choice::kRequired;
  static_cast<void>(ToolCallRules(*tools, options, limits).ok());
  return 0;
}
