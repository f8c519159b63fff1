#include "text/token_output_decoder.h"

#include <utility>

#include "text/dsml.h"

namespace thalweg::text {

Result<TokenOutputDecoder> TokenOutputDecoder::Create(const Tokenizer& tokenizer,
                                                      OutputDecoderOptions options) {
  options.spelled_think = !tokenizer.IdOfSpecial("</think>").has_value();
  TW_ASSIGN(OutputDecoder decoder, OutputDecoder::Create(std::move(options)));
  return TokenOutputDecoder(tokenizer, std::move(decoder));
}

TokenOutputDecoder::TokenOutputDecoder(const Tokenizer& tokenizer, OutputDecoder decoder)
    : tokenizer_(&tokenizer),
      decoder_(std::move(decoder)),
      think_(tokenizer.IdOfSpecial("<think>").value_or(-1)),
      end_think_(tokenizer.IdOfSpecial("</think>").value_or(-1)),
      dsml_(tokenizer.IdOfSpecial(kDsmlMark).value_or(-1)) {}

OutputEvents TokenOutputDecoder::Push(int32_t id) {
  if (id < 0) return {};
  if (id == think_) return decoder_.PushMark(ThinkMark::kBegin);
  if (id == end_think_) return decoder_.PushMark(ThinkMark::kEnd);
  if (id != dsml_ && tokenizer_->IsSpecial(id)) return {};
  return decoder_.Push(tokenizer_->TokenBytes(id));
}

}  // namespace thalweg::text
