// Any bytes: refused as an offer, or one that is written as the same bytes again.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "parallel/context_offer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace parallel = thalweg::parallel;
  const parallel::OfferLimits limits{.chunks = 4,
                                     .sequences = 8,
                                     .positions = 1 << 12,
                                     .vocab = 256,
                                     .blocks = 64,
                                     .block_tokens = 64,
                                     .block_bytes = 16,
                                     .state_bytes = 32};
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto chunks = parallel::DecodeOffer(bytes, limits);
  if (!chunks.ok()) return 0;
  std::vector<std::byte> written;
  parallel::EncodeOffer(*chunks, &written);
  TW_CHECK(std::equal(written.begin(), written.end(), bytes.begin(), bytes.end()));
  return 0;
}
