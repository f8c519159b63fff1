// For tests: whether a constraint accepts a text, token by token, with a tokenizer of single bytes
// and a few special tokens. Every mask on the way must hold the token that is taken.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/matcher.h"
#include "text/test_tokenizer.h"
#include "text/tokenizer.h"

namespace thalweg::grammar {

// Bytes, the special tokens <｜end｜> and <｜call｜>, and ｜DSML｜, which is added but not special.
inline const text::Tokenizer& TestTokenizer() {
  static const text::Tokenizer tokenizer =
      text::Tokenizer::Parse(
          text::ByteLevelJson({}, {"<｜end｜>", "<｜call｜>", "｜DSML｜"}).dump())
          .value();
  return tokenizer;
}

class TestAcceptor {
 public:
  explicit TestAcceptor(Rules rules) {
    Vocabulary::Options options;
    options.size = TestTokenizer().vocab_size();
    options.end_tokens = {*TestTokenizer().IdOfSpecial("<｜end｜>")};
    auto made = Grammar::Create(std::move(rules), Vocabulary::Of(TestTokenizer(), options));
    if (made.ok()) {
      grammar_ = *made;
    } else {
      error_ = made.status();
    }
  }

  const Status& error() const { return error_; }

  // Whether the text is complete; special tokens are recognised in it.
  bool Has(std::string_view text) {
    Matcher matcher(grammar_);
    for (const int32_t token : TestTokenizer().Encode(text, text::Specials::kRecognise)) {
      const auto mask = matcher.NextMask();
      const bool in_mask = mask.ok() && InMask(**mask, token);
      const auto taken = matcher.Accept(token);
      if (!taken.ok() || *taken != in_mask || !*taken) return false;
    }
    return matcher.can_end();
  }

 private:
  static bool InMask(const Mask& mask, int32_t token) {
    return (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
  }

  std::shared_ptr<Grammar> grammar_;
  Status error_;
};

}  // namespace thalweg::grammar
