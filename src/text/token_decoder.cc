#include "text/token_decoder.h"

#include <fmt/format.h>

#include <charconv>

#include "text/byte_alphabet.h"

namespace thalweg::text {
namespace {

// The byte of "<0x41>", or -1.
int FallbackByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  int byte = 0;
  const char* const stop = token.data() + 5;
  const auto [end, error] = std::from_chars(token.data() + 3, stop, byte, 16);
  return error == std::errc() && end == stop && byte >= 0 ? byte : -1;
}

}  // namespace

Result<TokenDecoder> TokenDecoder::Parse(const JsonField& field) {
  if (field.is_null()) return field.NotSupported("null, which joins tokens by spaces");
  TokenDecoder decoder;
  TW_TRY(decoder.Add(field));
  return decoder;
}

Status TokenDecoder::Add(const JsonField& field) {
  TW_ASSIGN(const JsonField type_field, field.Member("type"));
  TW_ASSIGN(const std::string type, type_field.AsString());
  if (type == "Fuse") return {};
  if (type == "Sequence") {
    TW_ASSIGN(const JsonField list, field.Member("decoders"));
    TW_TRY(list.RequireArray());
    for (size_t i = 0; i < list.value().size(); ++i) TW_TRY(Add(list.Element(i)));
    return {};
  }
  if (type != "ByteLevel" && type != "ByteFallback") {
    return type_field.NotSupported(
        fmt::format("\"{}\"; ByteLevel, ByteFallback, Fuse and Sequence are", type));
  }
  if (kind_ != Kind::kPlain) return type_field.NotSupported("a second decoder of bytes");
  kind_ = type == "ByteLevel" ? Kind::kByteLevel : Kind::kByteFallback;
  return {};
}

std::string TokenDecoder::Bytes(std::string_view token) const {
  if (kind_ == Kind::kByteLevel) return FromAlphabet(token).value_or(std::string(token));
  const int byte = kind_ == Kind::kByteFallback ? FallbackByte(token) : -1;
  return byte < 0 ? std::string(token) : std::string(1, static_cast<char>(byte));
}

}  // namespace thalweg::text
