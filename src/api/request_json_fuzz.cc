// Any bytes as a request of the C interface: an error or a request, never a crash.
#include <cstddef>
#include <cstdint>

#include "api/request_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)thalweg::api::BatchFromJson(text).ok();
  (void)thalweg::api::SingleFromJson(text).ok();
  (void)thalweg::api::OptionsFromJson(text).ok();
  return 0;
}
