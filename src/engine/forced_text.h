// Text that a grammar leaves no choice about, offered as drafts (spec/decoding.md 5.5). Which
// tokens spell it is the target's business: the canonical ones are drafted, and verified like any
// others, so what comes out is what would come without them.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "exec/token_masks.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace thalweg::engine {

// How sure it is that the target spells forced text so.
enum class Spelling : uint8_t {
  kOnly,   // no other token may come
  kInner,  // the text that is known goes on behind the token's bytes, further than any token could
  kOpen,   // a longer token begins so, and may reach into what is not forced
};

struct ForcedToken {
  int32_t token = 0;
  Spelling spelling = Spelling::kOnly;
};

// The tokens behind where the matcher stands, at most so many; the matcher is where it was. Errors
// are those of the matcher.
Result<std::vector<ForcedToken>> ForcedTokens(const text::Tokenizer& tokenizer, int64_t most,
                                              grammar::Matcher* matcher);

// How often forced tokens come out, by spelling: recent ones count most.
class SpellingRates {
 public:
  void Observe(Spelling spelling, bool came, double share);
  double Of(Spelling spelling) const;

 private:
  // Before anything is known. A token that nothing may replace comes whatever happens.
  std::array<double, 3> rates_ = {1, 0.9, 0.6};
};

// What the sequences of an engine share: thread-safe.
class ForcedText {
 public:
  // most: drafts of a sequence and step; 0: none are offered.
  ForcedText(const text::Tokenizer* tokenizer, int64_t most) : tokenizer_(tokenizer), most_(most) {}

  struct Counts {
    uint64_t offered = 0;
    uint64_t accepted = 0;  // each one saved its sequence a step
  };

  bool offers() const { return most_ > 0; }
  Result<std::vector<ForcedToken>> Behind(grammar::Matcher* matcher) const {
    return ForcedTokens(*tokenizer_, most_, matcher);
  }
  // For a sequence that begins.
  SpellingRates Usual();
  // Tokens came out of a step that had `offered` of `forced` at its disposal.
  void Observe(std::span<const ForcedToken> forced, size_t offered, std::span<const int32_t> tokens,
               SpellingRates* own);
  Counts counts() const;

 private:
  const text::Tokenizer* const tokenizer_;
  const int64_t most_;
  mutable std::mutex mutex_;
  SpellingRates usual_ = {};
  Counts counts_ = {};
};

}  // namespace thalweg::engine
