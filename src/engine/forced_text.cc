#include "engine/forced_text.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace thalweg::engine {
namespace {

// Longer than what a block of drafts can spell.
constexpr int64_t kMostBytes = 256;
// Of something new in the rates.
constexpr double kOwnShare = 1.0 / 8;
constexpr double kUsualShare = 1.0 / 64;

// Walks the matcher along forced text and notes the tokens.
class Follower {
 public:
  Follower(const text::Tokenizer& tokenizer, int64_t most, grammar::Matcher* matcher)
      : tokenizer_(tokenizer), most_(static_cast<size_t>(most)), matcher_(*matcher) {}

  Status Follow() {
    while (tokens_.size() < most_) {
      const size_t before = tokens_.size();
      TW_ASSIGN(const std::string bytes, matcher_.ForcedBytes(kMostBytes));
      TW_TRY(bytes.empty() ? TakeToken() : TakeText(bytes));
      if (tokens_.size() == before) return {};
    }
    return {};
  }
  std::vector<ForcedToken>& tokens() { return tokens_; }

 private:
  Status TakeToken() {
    TW_ASSIGN(const int32_t token, matcher_.ForcedToken());
    return token < 0 ? Status() : Take(token, Spelling::kOnly).status();
  }

  // false: not allowed, or not what the text says (it ends within a character).
  Result<bool> Take(int32_t token, Spelling spelling) {
    TW_ASSIGN(const bool taken, matcher_.Accept(token));
    if (taken) tokens_.push_back({token, spelling});
    return taken;
  }

  Status TakeText(std::string_view text) {
    const grammar::Vocabulary& vocabulary = matcher_.vocabulary();
    for (const int32_t token : tokenizer_.Encode(text, text::Specials::kAsText)) {
      const std::string_view bytes = vocabulary.bytes_of(token);
      if (tokens_.size() == most_ || bytes.empty() || !text.starts_with(bytes)) return {};
      const bool open = vocabulary.HasLonger(text);
      TW_ASSIGN(const bool taken, Take(token, open ? Spelling::kOpen : Spelling::kInner));
      if (!taken) return {};
      text.remove_prefix(bytes.size());
    }
    return {};
  }

  const text::Tokenizer& tokenizer_;
  const size_t most_;
  grammar::Matcher& matcher_;
  std::vector<ForcedToken> tokens_;
};

}  // namespace

Result<std::vector<ForcedToken>> ForcedTokens(const text::Tokenizer& tokenizer, int64_t most,
                                              grammar::Matcher* matcher) {
  const int64_t before = matcher->accepted();
  Follower follower(tokenizer, most, matcher);
  const Status status = follower.Follow();
  matcher->Rollback(matcher->accepted() - before);
  TW_TRY(status);
  return std::move(follower.tokens());
}

void SpellingRates::Observe(Spelling spelling, bool came, double share) {
  double& rate = rates_[static_cast<size_t>(spelling)];
  if (spelling != Spelling::kOnly) rate += ((came ? 1 : 0) - rate) * share;
}

double SpellingRates::Of(Spelling spelling) const { return rates_[static_cast<size_t>(spelling)]; }

SpellingRates ForcedText::Usual() {
  const std::scoped_lock lock(mutex_);
  return usual_;
}

// Whether the target spells a text so is seen wherever the history is that text, verified or not.
void ForcedText::Observe(std::span<const ForcedToken> forced, size_t offered,
                         std::span<const int32_t> tokens, SpellingRates* own) {
  const size_t seen = std::min(forced.size(), tokens.size());
  size_t same = 0;
  const std::scoped_lock lock(mutex_);
  for (bool came = true; came && same < seen; same += came ? 1 : 0) {
    came = forced[same].token == tokens[same];
    own->Observe(forced[same].spelling, came, kOwnShare);
    usual_.Observe(forced[same].spelling, came, kUsualShare);
  }
  counts_.offered += offered;
  counts_.accepted += std::min({same, offered, tokens.size() - 1});
}

ForcedText::Counts ForcedText::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

}  // namespace thalweg::engine
