// Any bytes as tokenizer.json are refused with a message or give a tokenizer that keeps its
// promises. The input is the JSON, a zero byte, and text to encode.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using thalweg::text::Specials;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const auto tokenizer = thalweg::text::Tokenizer::Parse(input.substr(0, cut));
  if (!tokenizer.ok()) {
    TW_CHECK(!tokenizer.status().message().empty());
    return 0;
  }
  const std::string_view text = cut == std::string_view::npos ? "aé 12" : input.substr(cut + 1);
  for (const Specials specials : {Specials::kAsText, Specials::kRecognise}) {
    const std::vector<int32_t> ids = tokenizer->Encode(text, specials);
    for (const int32_t id : ids) {
      TW_CHECK_GE(id, 0);
      TW_CHECK_LT(id, tokenizer->vocab_size());
    }
    TW_CHECK(thalweg::text::IsValidUtf8(tokenizer->Decode(ids, false)));
  }
  return 0;
}
