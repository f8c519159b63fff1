// Bytes cut anywhere stream to the text of the whole, each part well-formed and at most three bytes
// held back. The first input byte seeds the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/rng.h"
#include "text/stream_decoder.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::text;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string held;
  std::string streamed;
  for (size_t pos = 0; pos < bytes.size();) {
    const uint32_t draw =
        thalweg::base::Philox4x32({static_cast<uint32_t>(pos), 0, 0, 0}, {data[0], 0})[0];
    const size_t length = std::min<size_t>(1 + draw % 6, bytes.size() - pos);
    const std::string part = TakeCertainUtf8(held, bytes.substr(pos, length));
    TW_CHECK(IsValidUtf8(part));
    TW_CHECK_LE(held.size(), size_t{3});
    streamed += part;
    pos += length;
  }
  TW_CHECK(streamed + RepairUtf8(held) == RepairUtf8(bytes));
  return 0;
}
