// Any bytes: they are refused, or mean one plan or result whose bytes they are.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "step/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string again;
  thalweg::step::StepPlan plan;
  if (thalweg::step::DecodePlan(bytes, &plan).ok()) {
    thalweg::step::EncodePlan(plan, &again);
    TW_CHECK(again == bytes);
  }
  thalweg::step::StepResult result;
  if (thalweg::step::DecodeResult(bytes, &result).ok()) {
    thalweg::step::EncodeResult(result, &again);
    TW_CHECK(again == bytes);
  }
  return 0;
}
