// Any bytes: refused as a calibration, or the same table when it is written and read again, with
// every value in its range.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/calibration.h"
#include "spec/limits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace spec = thalweg::spec;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = spec::ParseCalibration(text, "input");
  if (!first.ok()) return 0;
  TW_CHECK_LE(first->temperatures.size(), static_cast<size_t>(spec::kMaxSlots));
  for (const double t : first->temperatures)
    TW_CHECK(t >= spec::kLeastTemperature && t <= spec::kMostTemperature);
  const std::string written = spec::ToJson(*first);
  const auto second = spec::ParseCalibration(written, "written");
  TW_CHECK(second.ok());
  TW_CHECK(spec::ToJson(*second) == written);
  return 0;
}
