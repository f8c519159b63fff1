// Any bytes: refused as a placement, or a whole one that is the same when it is written and read
// again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "parallel/placement.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace parallel = thalweg::parallel;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = parallel::ParsePlacement(text, "input");
  if (!first.ok()) return 0;
  TW_CHECK(parallel::CheckPlacement(*first).ok());
  const auto second = parallel::ParsePlacement(parallel::ToJson(*first), "written");
  TW_CHECK(second.ok());
  TW_CHECK(*second == *first);
  return 0;
}
