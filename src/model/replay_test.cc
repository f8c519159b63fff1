// Replay keeps the rows it promises, counted from the prompt's end, and refuses to keep too few
// (spec/decoding.md 2.3).
#include "model/replay.h"

#include <gtest/gtest.h>

namespace thalweg::model {
namespace {

using checkpoint::Config;

Config Released() {
  return Config::Load(THALWEG_SOURCE_DIR "/tests/data/released_config.json").value();
}

TEST(Replay, NamesOfModes) {
  EXPECT_EQ(*ParseReplayMode("full"), ReplayMode::kFull);
  EXPECT_EQ(*ParseReplayMode("compact"), ReplayMode::kCompact);
  EXPECT_EQ(*ParseReplayMode("halo"), ReplayMode::kHalo);
  for (const char* bad : {"", "Full", "compact ", "none"})
    EXPECT_EQ(ParseReplayMode(bad).status().code(), base::Code::kInvalidArgument) << bad;
}

TEST(Replay, NumbersOfTheRelease) {
  const Config c = Released();
  EXPECT_EQ(RollbackTokens(c), 12);
  EXPECT_EQ(DefaultKeepTokens(c), 140);
  // 2541 rows make the last window exact when all of the twenty layers are trimmed; twelve more
  // make the rollback exact too.
  EXPECT_EQ(HaloTokens(c), 128 + 19 * 127 + 12);
}

TEST(Replay, HaloOfADecoderOfOneLayerIsItsRing) {
  Config c = Released();
  c.kv_source_layer_ids = {2, 8, 14, c.num_hidden_layers - 1};
  EXPECT_EQ(HaloTokens(c), DefaultKeepTokens(c));
}

TEST(Replay, WithoutADrafterTwoRowsMayGoBack) {
  Config c = Released();
  c.num_nextn_predict_layers = 0;
  c.dspark_block_size = 0;
  EXPECT_EQ(RollbackTokens(c), 2);
  EXPECT_EQ(DefaultKeepTokens(c), 130);
}

TEST(Replay, TooFewKeptTokensAreRefused) {
  const Config c = Released();
  for (const int64_t keep : {int64_t{-1}, int64_t{0}, int64_t{128}, int64_t{139}}) {
    const auto refused = Replay::Make(ReplayMode::kCompact, keep, c);
    EXPECT_EQ(refused.status().code(), base::Code::kInvalidArgument) << keep;
    EXPECT_NE(refused.status().message().find("140"), std::string::npos);
  }
  EXPECT_EQ(Replay::Make(ReplayMode::kCompact, 140, c)->keep_tokens, 140);
  EXPECT_EQ(Replay::Make(ReplayMode::kCompact, {}, c)->keep_tokens, 140);
  EXPECT_EQ(Replay::Make(ReplayMode::kCompact, 4096, c)->keep_tokens, 4096);
}

TEST(Replay, TheDecoderStartsRelativeToTheEnd) {
  const Config c = Released();
  const Replay full = *Replay::Make(ReplayMode::kFull, {}, c);
  const Replay compact = *Replay::Make(ReplayMode::kCompact, {}, c);
  const Replay halo = *Replay::Make(ReplayMode::kHalo, {}, c);
  for (const int64_t prompt : {int64_t{1}, int64_t{130}, int64_t{140}, int64_t{141}, int64_t{450},
                               int64_t{2553}, int64_t{2554}, int64_t{1048576}}) {
    EXPECT_EQ(full.DecoderFrom(prompt, c), 0);
    EXPECT_EQ(compact.DecoderFrom(prompt, c), std::max<int64_t>(0, prompt - 140));
    EXPECT_EQ(halo.DecoderFrom(prompt, c), std::max<int64_t>(0, prompt - 2553));
  }
}

}  // namespace
}  // namespace thalweg::model
