// Any bytes as a cluster or as costs: an error or values that can be computed with, never a crash.
#include <cstddef>
#include <cstdint>

#include "sim/cluster.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)sim::ParseCluster(text, "fuzz").ok();
  const auto costs = sim::ParseCosts(text, "fuzz");
  if (!costs.ok()) return 0;
  for (const sim::OpCost& op : costs->decode.ops) TW_CHECK(op.At(17, 1000) >= 0);
  TW_CHECK(costs->experts.us_of_rows.At(3) >= 0);
  return 0;
}
