// Any bytes: refused as a cost profile, or the same when it is written and read again, and a table
// of it answers with times that never fall.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/cost_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace spec = thalweg::spec;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = spec::ParseCostProfile(text, "input");
  if (!first.ok()) return 0;
  const std::string written = spec::ToJson(*first);
  const auto second = spec::ParseCostProfile(written, "written");
  TW_CHECK(second.ok());
  TW_CHECK(spec::ToJson(*second) == written);
  const spec::CostTable table(*first);
  double before = 0;
  for (int64_t rows = 1; rows < 1'000'000; rows = rows * 3 / 2 + 1) {
    const double seconds = table.StepSeconds(1, rows);
    TW_CHECK(seconds >= before && seconds > 0);
    TW_CHECK(table.StepSeconds(2, rows) >= seconds);
    TW_CHECK(table.DraftSeconds(rows) > 0);
    before = seconds;
  }
  return 0;
}
