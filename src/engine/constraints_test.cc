// Compiled grammars are shared and leave when they are not needed; what so_args say is read once
// and whole; a sequence's masks follow its tokens, whoever makes them.
#include "engine/constraints.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "text/test_tokenizer.h"

namespace thalweg::engine {
namespace {

std::shared_ptr<const text::Tokenizer> BytesTokenizer() {
  auto parsed =
      text::Tokenizer::Parse(text::ByteLevelJson({}, {"<end>", "<think>", "</think>"}).dump());
  TW_CHECK(parsed.ok());
  return std::make_shared<const text::Tokenizer>(std::move(*parsed));
}

class ConstraintsTest : public testing::Test {
 protected:
  ConstraintsTest() { options_.end_tokens = {End()}; }

  int32_t End() const { return *options_.tokenizer->IdOfSpecial("<end>"); }
  int32_t Token(char c) const {
    return options_.tokenizer->Encode(std::string(1, c), text::Specials::kAsText).front();
  }

  // Tokens of single bytes that may come.
  std::string Next(exec::TokenMasks* masks) const {
    const exec::NextTokens next = masks->Wait().value();
    std::string out;
    for (char c = ' '; c <= '~'; ++c) {
      const auto t = static_cast<size_t>(Token(c));
      if (((*next.mask)[t / 32] >> (t % 32) & 1) != 0) out += c;
    }
    return out;
  }

  std::shared_ptr<const text::Tokenizer> tokenizer_ = BytesTokenizer();
  Constraints::Options options_ = {
      .tokenizer = tokenizer_, .vocab = tokenizer_->vocab_size(), .cache_bytes = 64 << 20};
};

TEST_F(ConstraintsTest, SoArgsAreReadWhole) {
  const auto parse = [&](std::string_view json) {
    return ParseSoArgs(json, "python", *tokenizer_);
  };
  const auto schema = parse(R"({"type": "json_schema", "content": {"type": "null"}})");
  ASSERT_TRUE(schema.ok()) << schema.status().ToString();
  EXPECT_EQ(schema->constraint.schema.whitespace, grammar::SchemaOptions::Whitespace::kPython);
  EXPECT_FALSE(schema->starts_after.has_value());
  const auto own = parse(
      R"({"type": "json_object", "whitespace": "compact", "starts_after_token": "</think>"})");
  ASSERT_TRUE(own.ok()) << own.status().ToString();
  EXPECT_EQ(own->constraint.schema.whitespace, grammar::SchemaOptions::Whitespace::kCompact);
  EXPECT_EQ(own->starts_after, tokenizer_->IdOfSpecial("</think>"));
  for (const auto& [json, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "so_args"},
           {"[]", "must be an object"},
           {"{}", "so_args.type"},
           {R"({"type": "regex", "content": "a", "colour": 1})", "colour"},
           {R"({"type": "regex", "content": "a", "starts_after_token": -1})", "starts_after_token"},
           {R"({"type": "regex", "content": "a", "starts_after_token": "a"})",
            "starts_after_token"}}) {
    const auto bad = parse(json);
    ASSERT_FALSE(bad.ok()) << json;
    EXPECT_NE(bad.status().message().find(part), std::string::npos) << bad.status().message();
  }
}

TEST_F(ConstraintsTest, MasksFollowTheTokensWhoeverMakesThem) {
  for (const int threads : {0, 2}) {
    options_.threads = threads;
    Constraints constraints(options_);
    const auto compiled = constraints.Compile(R"x({"type": "regex", "content": "a(bc|bd)"})x", -1);
    ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
    constraints.Open(7, 2, *compiled);
    const auto masks = constraints.Find(7);
    ASSERT_TRUE(masks->Begin({}).ok());
    EXPECT_EQ(Next(masks.get()), "a");
    masks->Accept(std::vector<int32_t>{Token('a')});
    EXPECT_EQ(Next(masks.get()), "b");
    masks->Accept(std::vector<int32_t>{Token('b')});
    EXPECT_EQ(Next(masks.get()), "cd");
    EXPECT_EQ(Next(constraints.Find(8).get()), "a");  // each has its own place
    // After a preemption it stands where it stood.
    EXPECT_TRUE(masks->Begin(std::vector<int32_t>{Token('a'), Token('b')}).ok());
    EXPECT_EQ(Next(masks.get()), "cd");
    EXPECT_FALSE(masks->Begin(std::vector<int32_t>{Token('a')}).ok());
    masks->Accept(std::vector<int32_t>{Token('d')});
    EXPECT_TRUE(masks->Wait()->complete);
    EXPECT_EQ(Next(masks.get()), "");
    constraints.Close(7, 2);
    EXPECT_EQ(constraints.Find(7), nullptr);
  }
}

TEST_F(ConstraintsTest, TheGrammarBeginsBehindItsToken) {
  Constraints constraints(options_);
  const int32_t end = *tokenizer_->IdOfSpecial("</think>");
  const auto compiled = constraints.Compile(R"({"type": "regex", "content": "ab"})", end);
  ASSERT_TRUE(compiled.ok());
  constraints.Open(1, 1, *compiled);
  const auto masks = constraints.Find(1);
  const exec::NextTokens free = *masks->Wait();
  EXPECT_EQ((*free.mask)[static_cast<size_t>(End()) / 32] >> (End() % 32) & 1, 0u);
  EXPECT_NE(Next(masks.get()).find("xyz"), std::string::npos);
  masks->Accept(std::vector<int32_t>{Token('x')});
  masks->Accept(std::vector<int32_t>{Token('a')});
  EXPECT_NE(Next(masks.get()).find("xyz"), std::string::npos);
  masks->Accept(std::vector<int32_t>{end});
  EXPECT_EQ(Next(masks.get()), "a");
}

// Masks along a block of drafts: as far as the drafts are allowed, and nothing is taken.
TEST_F(ConstraintsTest, DraftsAreFollowedAndForgotten) {
  Constraints constraints(options_);
  const int32_t end = *tokenizer_->IdOfSpecial("</think>");
  constraints.Open(1, 1,
                   *constraints.Compile(R"x({"type": "regex", "content": "a(bc|bd)"})x", end));
  const auto masks = constraints.Find(1);
  const auto count = [&](const std::vector<int32_t>& drafts) {
    return masks->WaitAlong(drafts).value().size();
  };
  EXPECT_EQ(count({Token('x'), end, Token('a'), Token('b'), Token('x')}), 5u);
  EXPECT_EQ(count({Token('x'), end, Token('b')}), 3u);
  masks->Accept(std::vector<int32_t>{Token('x'), end, Token('a')});
  const auto along = masks->WaitAlong(std::vector<int32_t>{Token('b'), Token('d'), End()}).value();
  ASSERT_EQ(along.size(), 3u);
  EXPECT_FALSE(along[1].complete);
  EXPECT_TRUE(along[2].complete);
  EXPECT_EQ(Next(masks.get()), "b");
  masks->Accept(std::vector<int32_t>{Token('b'), Token('c')});
  EXPECT_TRUE(masks->Wait()->complete);
}

TEST_F(ConstraintsTest, ATokenThatIsNotAllowedIsAnErrorThatStays) {
  Constraints constraints(options_);
  constraints.Open(1, 1, *constraints.Compile(R"({"type": "regex", "content": "ab"})", -1));
  const auto masks = constraints.Find(1);
  ASSERT_TRUE(masks->Wait().ok());
  masks->Accept(std::vector<int32_t>{Token('x')});
  EXPECT_FALSE(masks->Wait().ok());
  EXPECT_FALSE(masks->Wait().ok());
}

TEST_F(ConstraintsTest, RequestsShareWhatIsCompiled) {
  Constraints constraints(options_);
  const std::string args = R"({"type": "regex", "content": "a+"})";
  const auto first = constraints.Compile(args, -1);
  const auto second = constraints.Compile(R"({"content": "a+", "type": "regex"})", -1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->grammar, second->grammar);
  EXPECT_FALSE(constraints.Compile(R"({"type": "regex", "content": "("})", -1).ok());
  const ConstraintMetrics metrics = constraints.metrics();
  EXPECT_EQ(metrics.compiled, 1u);
  EXPECT_EQ(metrics.cache_hits, 1u);
  EXPECT_EQ(metrics.refused, 1u);
  EXPECT_EQ(metrics.grammars, 1);
}

TEST_F(ConstraintsTest, ACacheWithoutRoomKeepsNothingAndAnswersAllTheSame) {
  options_.cache_bytes = 0;
  Constraints constraints(options_);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(constraints.Compile(R"({"type": "regex", "content": "a+"})", -1).ok());
  EXPECT_EQ(constraints.metrics().compiled, 3u);
  EXPECT_EQ(constraints.metrics().grammars, 0);
}

TEST_F(ConstraintsTest, TheLeastRecentlyUsedLeavesFirst) {
  Constraints measuring(options_);
  ASSERT_TRUE(measuring.Compile(R"({"type": "regex", "content": "a0"})", -1).ok());
  options_.cache_bytes = 3 * measuring.metrics().grammar_bytes;
  Constraints constraints(options_);
  const auto compile = [&](int i) {
    const std::string regex = "a" + std::to_string(i);
    EXPECT_TRUE(constraints.Compile(R"({"type": "regex", "content": ")" + regex + "\"}", -1).ok());
  };
  for (const int i : {0, 1, 0, 2, 3}) compile(i);
  const uint64_t before = constraints.metrics().compiled;
  compile(0);  // was used after 1
  EXPECT_EQ(constraints.metrics().compiled, before);
  compile(1);
  EXPECT_EQ(constraints.metrics().compiled, before + 1);
}

TEST(GrammarCache, AtTheSameTimeOneCompilesForAll) {
  GrammarCache cache(1 << 20);
  constexpr int kThreads = 8;
  std::atomic<int> compiled = 0, arrived = 0;
  const auto compile = [&]() -> Result<GrammarRef> {
    ++compiled;
    while (arrived < kThreads) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return base::InvalidArgument("no");
  };
  std::vector<std::thread> threads;
  std::atomic<int> errors = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++arrived;
      errors += cache.Get("key", compile).ok() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, kThreads);
  EXPECT_LT(compiled, kThreads);
  EXPECT_FALSE(cache.Get("key", compile).ok());  // errors are not remembered
  EXPECT_EQ(cache.stats().grammars, 0);
}

}  // namespace
}  // namespace thalweg::engine
