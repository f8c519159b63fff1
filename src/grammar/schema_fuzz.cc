// Any bytes as a schema: an error or rules, within the limits, and never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "grammar/schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg;  // NOLINT(google-build-using-namespace): one function
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Result<base::Json> schema = base::ParseJson(text, "schema", {.max_depth = 300});
  if (!schema.ok()) return 0;
  grammar::SchemaOptions options;
  options.whitespace = static_cast<grammar::SchemaOptions::Whitespace>(data[0] % 3);
  options.any_order = (data[0] & 4) != 0;
  options.strict = (data[0] & 8) != 0;
  options.open_formats = (data[0] & 16) != 0;
  grammar::Limits limits;
  limits.compile_seconds = 0.5;
  (void)grammar::CompileSchema(schema.value(), options, limits);
  return 0;
}
