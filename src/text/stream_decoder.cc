#include "text/stream_decoder.h"

#include "text/utf8.h"

namespace thalweg::text {
namespace {

// Where the truncated character at the end of `bytes` begins; bytes.size() when there is none. Only
// the last three bytes can belong to one.
size_t TruncatedTail(std::string_view bytes) {
  const size_t first = bytes.size() > 3 ? bytes.size() - 3 : 0;
  for (size_t pos = first; pos < bytes.size(); ++pos) {
    if (DecodeUtf8(bytes.substr(pos)).kind == Utf8Kind::kTruncated) return pos;
  }
  return bytes.size();
}

}  // namespace

std::string TakeCertainUtf8(std::string& held, std::string_view bytes) {
  held.append(bytes);
  const size_t certain = TruncatedTail(held);
  std::string text = RepairUtf8(std::string_view(held).substr(0, certain));
  held.erase(0, certain);
  return text;
}

std::string StreamDecoder::Push(int32_t id) {
  if (skip_specials_ && tokenizer_->IsSpecial(id)) return {};
  return TakeCertainUtf8(held_, tokenizer_->TokenBytes(id));
}

std::string StreamDecoder::Flush() {
  std::string text = RepairUtf8(held_);
  held_.clear();
  return text;
}

}  // namespace thalweg::text
