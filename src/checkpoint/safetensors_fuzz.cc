// Any bytes as a safetensors file: an error, or entries that cover the data exactly once and can
// all be read.
#include "checkpoint/safetensors.h"

namespace {

using namespace thalweg;
using namespace thalweg::checkpoint;

void Use(const SafetensorsHeader& header, std::span<const std::byte> file) {
  TW_CHECK_LE(header.data_offset, file.size());
  const std::span<const std::byte> data = file.subspan(header.data_offset);
  uint64_t at = 0;
  unsigned sum = 0;
  for (const TensorEntry& entry : header.entries) {
    TW_CHECK_EQ(entry.begin, at);
    at = entry.end;
    const tensor::View view = {entry.dtype, entry.shape, nullptr};
    TW_CHECK_EQ(static_cast<uint64_t>(view.bytes()), entry.end - entry.begin);
    for (const std::byte b : data.subspan(entry.begin, entry.end - entry.begin)) {
      sum += std::to_integer<unsigned>(b);
    }
  }
  TW_CHECK_EQ(at, data.size());
  TW_CHECK_LE(sum, 255u * static_cast<unsigned>(data.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  const auto header = ParseSafetensorsHeader(file, "fuzz");
  if (header.ok()) Use(*header, file);
  return 0;
}
