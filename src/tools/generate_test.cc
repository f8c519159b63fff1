// Generation is repeatable: chunks, seeds and stops behave as documented, and a prompt too long or
// empty is refused.
#include "tools/generate.h"

#include <gtest/gtest.h>

#include "tools/session.h"

namespace thalweg::tools {
namespace {

Session OpenNano(int64_t max_rows) {
  SessionOptions options;
  options.folder = std::filesystem::path(THALWEG_SOURCE_DIR) / "models/nano";
  options.backend = "cpu";
  options.max_rows = max_rows;
  Result<Session> session = OpenSession(options);
  if (!session.ok())
    base::CheckFailed(__FILE__, __LINE__, "OpenSession", session.status().ToString());
  return std::move(*session);
}

const std::vector<int32_t> kPrompt = {0, 6136, 434, 617, 776, 3663, 353, 33, 6137, 6139};

GenerateOptions Options(double temperature, uint64_t seed, int64_t tokens) {
  GenerateOptions options;
  options.sampling.temperature = temperature;
  options.sampling.seed = seed;
  options.max_new_tokens = tokens;
  options.end_tokens = {1};
  return options;
}

TEST(Generate, ChunksAndSeedsRepeat) {
  Session whole = OpenNano(512);
  Session chunked = OpenNano(16);
  const std::vector<int32_t> prompt(100, 434);
  for (const double temperature : {0.0, 1.0}) {
    const auto a = Generate(*whole.model, prompt, Options(temperature, 5, 12));
    const auto b = Generate(*chunked.model, prompt, Options(temperature, 5, 12));
    const auto c = Generate(*whole.model, prompt, Options(temperature, 5, 12));
    ASSERT_TRUE(a.ok() && b.ok() && c.ok());
    EXPECT_EQ(a->tokens, b->tokens);
    EXPECT_EQ(a->logits_digest, b->logits_digest);
    EXPECT_EQ(a->logits_digest, c->logits_digest);
  }
}

TEST(Generate, StopsForTheRightReason) {
  Session session = OpenNano(512);
  EXPECT_EQ(Generate(*session.model, kPrompt, Options(0, 0, 3))->finish, FinishReason::kLength);
  EXPECT_EQ(Generate(*session.model, kPrompt, Options(0, 0, 400))->finish, FinishReason::kEnd);
  GenerateOptions options = Options(0, 0, 400);
  int seen = 0;
  options.on_token = [&](int32_t) { return ++seen < 4; };
  const auto stopped = Generate(*session.model, kPrompt, options);
  EXPECT_EQ(stopped->finish, FinishReason::kStopped);
  EXPECT_EQ(stopped->tokens.size(), 4u);
}

TEST(Generate, InterruptionsStopBetweenChunksAndTokens) {
  Session session = OpenNano(16);
  for (const int after : {0, 1, 3, 7, 8}) {
    GenerateOptions options = Options(0, 0, 400);
    int asked = 0;
    options.interrupted = [&] { return asked++ >= after; };
    const auto cut = Generate(*session.model, std::vector<int32_t>(100, 434), options);
    ASSERT_TRUE(cut.ok());
    EXPECT_EQ(cut->finish, FinishReason::kStopped);
    EXPECT_EQ(cut->tokens.size(), after < 8 ? 0u : 1u);  // the prompt is seven chunks
  }
}

TEST(Generate, RefusesEmptyAndEndlessPrompts) {
  Session session = OpenNano(512);
  EXPECT_EQ(Generate(*session.model, {}, Options(0, 0, 3)).status().code(),
            base::Code::kInvalidArgument);
  const std::vector<int32_t> endless(static_cast<size_t>(session.config().max_position_embeddings),
                                     5);
  EXPECT_EQ(Generate(*session.model, endless, Options(0, 0, 3)).status().code(),
            base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace thalweg::tools
