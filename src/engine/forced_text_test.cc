// Forced text becomes the tokens that spell it as the tokenizer would, no further than it is
// forced, each with how sure its spelling is; sequences offer them behind what was accepted, and
// what comes of them is counted and learned from.
#include "engine/forced_text.h"

#include <gtest/gtest.h>

#include "engine/constraints.h"
#include "text/test_tokenizer.h"

namespace thalweg::engine {
namespace {

// "ab", "abc", "xy" are tokens beside the bytes; <end> ends, <mark> has no text.
std::shared_ptr<const text::Tokenizer> Letters() {
  auto parsed = text::Tokenizer::Parse(
      text::ByteLevelJson({{"a", "b"}, {"ab", "c"}, {"x", "y"}}, {"<end>", "<mark>"}).dump());
  TW_CHECK(parsed.ok());
  return std::make_shared<const text::Tokenizer>(std::move(*parsed));
}

class ForcedTextTest : public testing::Test {
 protected:
  int32_t Id(std::string_view text) const {
    const auto ids = tokenizer_->Encode(text, text::Specials::kRecognise);
    TW_CHECK(ids.size() == 1);
    return ids.front();
  }
  Constraints Make(int64_t most, int threads = 0) const {
    return Constraints({.tokenizer = tokenizer_,
                        .vocab = tokenizer_->vocab_size(),
                        .end_tokens = {Id("<end>")},
                        .cache_bytes = 64 << 20,
                        .threads = threads,
                        .forced_tokens = most});
  }
  static std::string Regex(std::string_view regex) {
    return R"({"type": "regex", "content": ")" + std::string(regex) + R"("})";
  }
  std::vector<ForcedToken> Of(std::string_view regex, int64_t most,
                              const std::vector<int32_t>& before = {}) const {
    Constraints constraints = Make(most);
    grammar::Matcher matcher(constraints.Compile(Regex(regex), -1).value().grammar);
    for (const int32_t token : before) TW_CHECK(matcher.Accept(token).value());
    const auto forced = ForcedTokens(*tokenizer_, most, &matcher).value();
    EXPECT_EQ(matcher.accepted(), static_cast<int64_t>(before.size()));
    return forced;
  }
  static std::vector<int32_t> Ids(const std::vector<ForcedToken>& forced) {
    std::vector<int32_t> ids;
    for (const ForcedToken& f : forced) ids.push_back(f.token);
    return ids;
  }
  std::vector<int32_t> Tokens(std::initializer_list<std::string_view> texts) const {
    std::vector<int32_t> ids;
    for (const std::string_view text : texts) ids.push_back(Id(text));
    return ids;
  }

  std::shared_ptr<const text::Tokenizer> tokenizer_ = Letters();
};

TEST_F(ForcedTextTest, IsSpeltAsTheTokenizerWould) {
  EXPECT_EQ(Ids(Of("zabcxy(1|2)", 11)), Tokens({"z", "abc", "xy"}));
  EXPECT_EQ(Ids(Of("zabcxy(1|2)", 2)), Tokens({"z", "abc"}));
  EXPECT_EQ(Ids(Of("zabcxy(1|2)", 11, Tokens({"z", "ab"}))), Tokens({"c", "xy"}));
  EXPECT_TRUE(Of("(1|2)abc", 11).empty());
  EXPECT_TRUE(Of("(ab)?", 11).empty());  // an end is possible
  EXPECT_TRUE(Of("ab", 11, Tokens({"ab"})).empty());
}

TEST_F(ForcedTextTest, KnowsWhatAnotherTokenMayTakeFurther) {
  const auto forced = Of("zab(c|d)", 11);
  ASSERT_EQ(Ids(forced), Tokens({"z", "ab"}));
  EXPECT_EQ(forced[0].spelling, Spelling::kInner);
  EXPECT_EQ(forced[1].spelling, Spelling::kOpen);  // "abc" may come
}

// Half a character is no text: bytes that would be replaced are not offered.
TEST_F(ForcedTextTest, EndsWhereACharacterDoes) {
  const auto forced = Of("z(\xc3\xa4|\xc3\xb6)", 11);
  EXPECT_EQ(Ids(forced), Tokens({"z"}));
}

TEST_F(ForcedTextTest, NamesTokensWithoutText) {
  Constraints constraints = Make(11);
  const auto compiled = constraints.Compile(
      R"x({"type": "structural", "content": {"type": "structural_tag", "format":
          {"type": "token", "token": "<mark>"}}})x",
      -1);
  ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
  grammar::Matcher matcher(compiled->grammar);
  const auto forced = ForcedTokens(*tokenizer_, 11, &matcher).value();
  ASSERT_EQ(Ids(forced), Tokens({"<mark>"}));
  EXPECT_EQ(forced[0].spelling, Spelling::kOnly);
}

TEST_F(ForcedTextTest, FollowsTheSequenceWhoeverMakesItsMasks) {
  for (const int threads : {0, 2}) {
    Constraints constraints = Make(3, threads);
    constraints.Open(1, 1, *constraints.Compile(Regex("zabcxy(1|2)xyxyxyxy"), -1));
    const auto masks = constraints.Find(1);
    const auto offered = [&](int64_t most) {
      std::vector<int32_t> ids;
      for (const exec::ForcedDraft& d : masks->Forced(most)) ids.push_back(d.token);
      return ids;
    };
    EXPECT_EQ(offered(9), Tokens({"z", "abc", "xy"}));
    EXPECT_EQ(offered(1), Tokens({"z"}));
    ASSERT_EQ(masks->WaitAlong(Tokens({"z"})).value().size(), 2u);
    masks->Accept(Tokens({"z", "abc"}));
    EXPECT_EQ(offered(9), Tokens({"xy"}));
    ASSERT_TRUE(masks->Wait().ok());
    masks->Accept(Tokens({"x"}));
    EXPECT_EQ(offered(9), Tokens({"y"}));
    ASSERT_TRUE(masks->Wait().ok());
    masks->Accept(Tokens({"y", "1"}));
    EXPECT_EQ(offered(9), Tokens({"xy", "xy", "xy"}));
    const ConstraintMetrics metrics = constraints.metrics();
    EXPECT_EQ(metrics.forced_drafts, 3u);  // z, xy, y
    EXPECT_EQ(metrics.steps_saved, 2u);    // z, y
  }
}

TEST_F(ForcedTextTest, IsOffWithoutDrafts) {
  Constraints constraints = Make(0);
  constraints.Open(1, 1, *constraints.Compile(Regex("abc"), -1));
  EXPECT_TRUE(constraints.Find(1)->Forced(5).empty());
}

TEST(SpellingRates, LearnAndNeverDoubtWhatHasNoAlternative) {
  SpellingRates rates;
  const double open = rates.Of(Spelling::kOpen);
  for (int i = 0; i < 40; ++i) {
    rates.Observe(Spelling::kOpen, false, 0.125);
    rates.Observe(Spelling::kInner, true, 0.125);
    rates.Observe(Spelling::kOnly, false, 0.125);
  }
  EXPECT_LT(rates.Of(Spelling::kOpen), 0.1 * open);
  EXPECT_GT(rates.Of(Spelling::kInner), 0.99);
  EXPECT_EQ(rates.Of(Spelling::kOnly), 1);
}

}  // namespace
}  // namespace thalweg::engine
