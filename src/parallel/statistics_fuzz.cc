// Any bytes: refused as counts, or the same counts when they are written and read again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "parallel/statistics.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace parallel = thalweg::parallel;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = parallel::ParseCounts(text, "input");
  if (!first.ok()) return 0;
  for (const auto& layer : first->layers)
    TW_CHECK_EQ(static_cast<int64_t>(layer.size()), first->experts);
  const auto second = parallel::ParseCounts(parallel::ToJson(*first), "written");
  TW_CHECK(second.ok());
  TW_CHECK(*second == *first);
  return 0;
}
