// Tokens of the model in, events out: an OutputDecoder that knows which tokens are marks.
#pragma once

#include <cstdint>

#include "text/output_decoder.h"
#include "text/tokenizer.h"

namespace thalweg::text {

// The tokens <think> and </think> are marks; the same characters spelled by other tokens are text,
// so that an answer can speak of them. ｜DSML｜ counts in both forms: a block whose mark was
// spelled is still a block. Other special tokens and ids outside the vocabulary give no text. With
// a tokenizer that has no </think>, the spelled one counts.
class TokenOutputDecoder {
 public:
  // `tokenizer` must outlive the decoder. options.spelled_think is set here.
  static Result<TokenOutputDecoder> Create(const Tokenizer& tokenizer,
                                           OutputDecoderOptions options);

  // One token, so that what follows a stop string can be left out of ids, logprobs and usage: after
  // the token with which done() becomes true, no token counts.
  OutputEvents Push(int32_t id);
  bool done() const { return decoder_.done(); }
  OutputEvents Finish(OutputReason reason) { return decoder_.Finish(reason); }

 private:
  TokenOutputDecoder(const Tokenizer& tokenizer, OutputDecoder decoder);

  const Tokenizer* tokenizer_;
  OutputDecoder decoder_;
  int32_t think_ = -1;
  int32_t end_think_ = -1;
  int32_t dsml_ = -1;
};

}  // namespace thalweg::text
