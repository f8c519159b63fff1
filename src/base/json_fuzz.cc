// Any bytes: ParseJson refuses them, or what it read is written and read again without a change.
// Nothing that nlohmann-json refuses gets through.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = thalweg::base::ParseJson(text, "input");
  if (!first.ok()) return 0;
  TW_CHECK(thalweg::base::Json::accept(text));
  const auto second = thalweg::base::ParseJson(first->dump(), "dump");
  TW_CHECK(second.ok());
  TW_CHECK(*first == *second);
  return 0;
}
