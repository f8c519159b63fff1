// Any pattern is an expression or an error, in bounded time and memory; and an expression that has
// been made can be walked, classes and derivatives agreeing.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "grammar/regex_syntax.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::grammar;
  if (size < 2) return 0;
  const auto dialect = data[0] % 2 == 0 ? RegexDialect::kWhole : RegexDialect::kSearch;
  const auto encoding = data[0] % 4 < 2 ? CharacterEncoding::kUtf8 : CharacterEncoding::kJsonString;
  const size_t text_size = data[1] % 16;
  std::string_view pattern(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view text = pattern.substr(0, text_size);
  pattern.remove_prefix(text.size());
  RegexArena arena;
  constexpr int64_t kWork = 2'000'000;
  arena.LimitWork(kWork);
  Limits limits;
  limits.source_bytes = 2000;
  limits.expressions = 50000;
  const auto id = ParseRegex(pattern, dialect, encoding, limits, &arena);
  if (!id.ok()) return 0;
  RegexId at = *id;
  for (const char c : text) {
    const auto& classes = arena.ClassesOf(at);
    const uint8_t byte = static_cast<uint8_t>(c);
    const uint8_t representative = classes.representative[classes.class_of[byte]];
    const RegexId next = arena.Derivative(at, byte);
    if (arena.exhausted()) return 0;
    TW_CHECK_EQ(next, arena.Derivative(at, representative));
    at = next;
  }
  if (arena.IsNothing(at, 100) == true) TW_CHECK(!arena.Nullable(at));
  return 0;
}
