// Any bytes of another rank: refused, or fields that are the same when they are written and read
// again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "comm/agreement.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace comm = thalweg::comm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = comm::DecodeFields(text, "input");
  if (!first.ok()) return 0;
  const auto second = comm::DecodeFields(comm::EncodeFields(*first), "written");
  TW_CHECK(second.ok());
  TW_CHECK(*second == *first);
  TW_CHECK(comm::DescribeDifferences({*first, *second}).empty());
  return 0;
}
