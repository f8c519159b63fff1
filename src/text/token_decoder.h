// The "decoder" of a tokenizer.json: what bytes a token stands for.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "text/json_fields.h"

namespace thalweg::text {

class TokenDecoder {
 public:
  // ByteLevel or ByteFallback, alone or in a Sequence with Fuse. A ByteFallback run that is no
  // UTF-8 becomes U+FFFD per maximal subpart, like all other text.
  static Result<TokenDecoder> Parse(const JsonField& field);

  // ByteLevel: the bytes that the token spells in the alphabet, or the spelling itself when it has
  // a character outside. ByteFallback: one byte for "<0x41>", otherwise the spelling.
  std::string Bytes(std::string_view token) const;

 private:
  enum class Kind { kPlain, kByteLevel, kByteFallback };

  Status Add(const JsonField& field);

  Kind kind_ = Kind::kPlain;
};

}  // namespace thalweg::text
