// An order is refused or says exactly what its bytes say.
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "exec/rank_orders.h"
#include "step/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto order = exec::DecodePlacementOrder(text); order.ok())
    TW_CHECK(exec::EncodePlacementOrder(*order) == text);
  const auto bytes = std::as_bytes(std::span(data, size));
  const Result<exec::OrderHeader> header = exec::DecodeOrder(bytes);
  if (!header.ok()) return 0;
  TW_CHECK_LE(header->bytes, step::kMaxMessageBytes);
  const auto again = exec::EncodeOrder(*header);
  TW_CHECK(std::memcmp(again.data(), data, size) == 0);
  return 0;
}
