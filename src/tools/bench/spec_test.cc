// What is told of drafts follows from what became of them: acceptance of answers and of given text
// on the shipped checkpoint, intervals of paired runs, and documents in every form.
#include "tools/bench/spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "base/mapped_file.h"
#include "tools/bench/drafts.h"
#include "tools/bench/spec_pairs.h"
#include "tools/documents.h"
#include "tools/draft_replay.h"
#include "tools/session.h"

namespace thalweg::tools {
namespace {

Session OpenDrafting() {
  SessionOptions options;
  options.folder = THALWEG_SOURCE_DIR "/models/nano";
  options.backend = "cpu";
  options.threads = 1;
  options.draft = true;
  auto session = OpenSession(options);
  TW_CHECK(session.ok());
  return std::move(*session);
}

std::vector<Document> Prompts(const Session& session) {
  auto read = ReadDocumentFile(THALWEG_SOURCE_DIR "/tests/data/nano/prompts.json", session);
  TW_CHECK(read.ok());
  return std::move(*read);
}

TEST(DraftReplay, AnswersAreThoseOfGreedyDecoding) {
  Session session = OpenDrafting();
  const std::vector<Document> prompts = Prompts(session);
  ASSERT_EQ(prompts.size(), 120u);
  int64_t tokens = 0, steps = 0;
  for (size_t i = 0; i < 6; ++i) {
    const auto answer = AnswerWithDrafts(*session.model, prompts[i].ids, session.EndTokens(), 64);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    int64_t sum = 0;
    for (const spec::VerifiedBlock& b : answer->blocks) {
      EXPECT_LE(b.accepted, b.verified);
      EXPECT_EQ(b.raw.size(), 5u);
      sum += b.accepted + 1;
    }
    // Each step brings a token of the target's own, but for a last one that is an accepted end.
    EXPECT_LE(answer->tokens, sum);
    EXPECT_GE(answer->tokens, sum - 1);
    EXPECT_EQ(answer->steps, static_cast<int64_t>(answer->blocks.size()));
    tokens += answer->tokens;
    steps += answer->steps;
  }
  EXPECT_GT(static_cast<double>(tokens) / static_cast<double>(steps), 2.5);
}

// Of text that the model itself wrote, whole blocks of drafts are accepted as far as they follow
// it; blocks stand where they should.
TEST(DraftReplay, BlocksStandBehindEveryStride) {
  Session session = OpenDrafting();
  const std::vector<Document> prompts = Prompts(session);
  std::vector<int32_t> text;
  for (size_t i = 0; i < 8; ++i)
    text.insert(text.end(), prompts[i].ids.begin(), prompts[i].ids.end());
  const ReplayedText options{.first = 10, .stride = 7, .most_blocks = 1000};
  const auto blocks = ReplayText(*session.model, text, {}, options);
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ(blocks->size(), (text.size() - 10 + 6) / 7);
  for (const spec::VerifiedBlock& b : *blocks) EXPECT_EQ(b.verified, 5);
  const auto few =
      ReplayText(*session.model, text, {}, {.first = 10, .stride = 7, .most_blocks = 3});
  ASSERT_EQ(few->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*few)[i].raw, (*blocks)[i].raw);
    EXPECT_EQ((*few)[i].accepted, (*blocks)[i].accepted);
  }
  EXPECT_TRUE(ReplayText(*session.model, std::span(text).first(5), {}, options)->empty());
}

TEST(SpecFigures, IntervalsHoldTheMeanOfPairs) {
  const bench::Interval interval = bench::IntervalOf({1.1, 0.9, 1.05, 0.95, 1.0});
  EXPECT_NEAR(interval.mean,
              std::exp((std::log(1.1) + std::log(0.9) + std::log(1.05) + std::log(0.95)) / 5),
              1e-12);
  EXPECT_NEAR(interval.high / interval.mean, interval.mean / interval.low, 1e-12);
  EXPECT_NEAR(std::log(interval.high / interval.mean), 0.0983, 0.002);  // 2.776 * s / sqrt(5)
  EXPECT_EQ(bench::IntervalOf({2.0}).low, 0);
  EXPECT_EQ(bench::IntervalOf({2.0, 2.0, 2.0}).high, 2.0);
}

// What changes evenly over four halves is in both engines alike, and each quad counts once.
TEST(SpecFigures, QuadsOfHalves) {
  std::vector<bench::Quad> quads(2);
  for (size_t i = 0; i < 2; ++i) {
    const double slow = i == 0 ? 1 : 2;  // the machine
    quads[i].off.Add({.seconds = slow, .cpu_seconds = 2 * slow, .tokens = 100, .steps = 10});
    quads[i].off.Add({.seconds = slow, .cpu_seconds = 2 * slow, .tokens = 100, .steps = 10});
    quads[i].on.Add({.seconds = slow, .cpu_seconds = slow, .tokens = 110, .steps = 5});
    quads[i].on.Add({.seconds = slow, .cpu_seconds = slow, .tokens = 110, .steps = 5});
  }
  const bench::SpeedFigures figures = bench::FiguresOf(quads, 4);
  EXPECT_NEAR(figures.gain, 1.1, 1e-12);
  EXPECT_NEAR(figures.low, 1.1, 1e-9);
  EXPECT_NEAR(figures.cpu_gain, 2.2, 1e-12);
  EXPECT_NEAR(figures.off_tok_s, 400 / 6.0, 1e-9);
  EXPECT_NEAR(figures.on_step.tokens, 22, 1e-12);
  EXPECT_NEAR(figures.off_step.ms, 150, 1e-9);
}

TEST(SpecFigures, AcceptanceBySlot) {
  std::vector<spec::VerifiedBlock> blocks(4, {.raw = {8, 8}, .verified = 2, .accepted = 2});
  blocks[0].accepted = 0;
  blocks[1].accepted = 1;
  const bench::AcceptanceFigures figures = bench::AcceptanceOf(blocks, 2);
  EXPECT_EQ(figures.slots[0].survival, 0.75);
  EXPECT_EQ(figures.slots[1].survival, 0.5);
  EXPECT_NEAR(figures.slots[1].error, 0.5, 0.01);
  EXPECT_EQ(figures.slots[1].area, 0.5);
}

// The acceptance that whole blocks tell is that of every draft.
TEST(DraftedDecode, TokensOfFewerDrafts) {
  EXPECT_NEAR(bench::TokensOfWidth(3.51, 5, 5), 3.51, 1e-9);
  EXPECT_EQ(bench::TokensOfWidth(3.51, 5, 0), 1);
  const double first = bench::TokensOfWidth(3.51, 5, 1) - 1;
  EXPECT_NEAR(bench::TokensOfWidth(3.51, 5, 2), 1 + first + first * first, 1e-9);
  EXPECT_NEAR(bench::TokensOfWidth(6, 5, 3), 4, 1e-9);
  EXPECT_NEAR(bench::TokensOfWidth(1, 5, 5), 1, 1e-9);
}

TEST(Documents, OfLinesAndArraysWithIdsOrText) {
  const Session session = OpenDrafting();
  const std::string path = std::filesystem::temp_directory_path() /
                           ("thalweg_documents_" + std::to_string(getpid()) + ".json");
  const auto read = [&](const char* content) {
    TW_CHECK(base::WriteFile(path, content).ok());
    return ReadDocumentFile(path, session);
  };
  EXPECT_EQ((*read("{\"ids\": [1, 2, 3]}\n\n{\"ids\": [4, 5]}\n"))[1].ids,
            (std::vector<int32_t>{4, 5}));
  EXPECT_EQ((*read(" [{\"ids\": [1, 2]}, {\"ids\": [3, 4], \"text\": \"x\"}]"))[1].ids,
            (std::vector<int32_t>{3, 4}));
  const auto text = read("{\"text\": \"a river runs\"}");
  ASSERT_TRUE(text.ok());
  EXPECT_GT((*text)[0].ids.size(), 2u);
  EXPECT_EQ((*text)[0].ids[0], session.config().bos_token_id);
  EXPECT_FALSE(read("{\"word\": 1}").ok());
  EXPECT_FALSE(read("[1]").ok());
  EXPECT_FALSE(read("{\"ids\": [-1, 2]}").ok());
  EXPECT_FALSE(read("{\"ids\": [1]}").ok());  // no document of two tokens
  std::filesystem::remove(path);
}

TEST(TokenIds, Parse) {
  EXPECT_EQ(ParseTokenIds("12,7 9").value(), (std::vector<int32_t>{12, 7, 9}));
  for (const char* bad : {"", ",", "1;2", "1x", "99999999999"})
    EXPECT_FALSE(ParseTokenIds(bad).ok()) << bad;
}

}  // namespace
}  // namespace thalweg::tools
