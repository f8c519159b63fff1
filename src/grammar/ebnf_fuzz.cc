// Any text is a grammar or an error with its place, in bounded time and memory; the rules of a
// grammar name each other within bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "grammar/ebnf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::grammar;
  Limits limits;
  limits.source_bytes = 4000;
  limits.expressions = 50000;
  limits.symbols = 50000;
  auto rules = ParseEbnf({reinterpret_cast<const char*>(data), size}, limits);
  if (!rules.ok()) return 0;
  const auto count = static_cast<int32_t>(rules->rules().size());
  TW_CHECK_LT(rules->start(), count);
  for (const Rule& rule : rules->rules()) {
    for (const auto& alternative : rule.alternatives) {
      for (const Symbol& symbol : alternative) {
        if (symbol.kind == Symbol::Kind::kRule) TW_CHECK_LT(symbol.id, count);
        if (symbol.kind == Symbol::Kind::kRegex) TW_CHECK_LT(symbol.id, rules->regexes().size());
      }
    }
  }
  return 0;
}
