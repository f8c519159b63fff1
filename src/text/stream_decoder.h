// Tokens in, text out, one token at a time, never half a character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace thalweg::text {

// Concatenated, what Push and Flush return equals Tokenizer::Decode of the same ids.
class StreamDecoder {
 public:
  // `tokenizer` must outlive the decoder. With skip_specials, tokens with "special": true give no
  // text.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_specials = true)
      : tokenizer_(&tokenizer), skip_specials_(skip_specials) {}

  // Text that is certain now. Bytes that may still become a character are held back (at most 3);
  // bytes that cannot are U+FFFD per maximal subpart.
  std::string Push(int32_t id);

  // The end of the text: held bytes become U+FFFD. The decoder is then as new.
  std::string Flush();

  // Bytes held back now, 0 to 3.
  size_t held_bytes() const { return held_.size(); }

 private:
  const Tokenizer* tokenizer_;
  bool skip_specials_;
  std::string held_;
};

// The part under StreamDecoder that knows bytes only: appends `bytes` to `held`, returns what is
// certain and leaves the truncated end in `held`.
std::string TakeCertainUtf8(std::string& held, std::string_view bytes);

}  // namespace thalweg::text
