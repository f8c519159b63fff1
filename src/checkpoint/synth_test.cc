// Property: a synthetic checkpoint opens like a released one, depends on its seed alone, has the
// published statistics, and brings a tokenizer that folds as its config says.
#include "checkpoint/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "checkpoint/checkpoint.h"
#include "checkpoint/engram_tables.h"
#include "checkpoint/synth_random.h"
#include "checkpoint/synth_tokenizer.h"
#include "checkpoint/test_files.h"
#include "checkpoint/token_map.h"
#include "tensor/formats.h"
#include "text/tokenizer.h"

namespace thalweg::checkpoint {
namespace {

namespace fs = std::filesystem;

Config Golden(const char* path) { return Config::Load(SourceFile(path)).value(); }
Config TinyA() { return Golden("tests/data/tiny-a/model/config.json"); }

SynthesisOptions Options(uint64_t seed, uint64_t shard = 1 << 30, bool tokenizer = true) {
  return {.seed = seed, .max_shard_bytes = shard, .tokenizer = tokenizer};
}

TEST(Synth, OpensWithEveryPart) {
  const ScratchFolder folder;
  for (const char* path : {"tests/data/tiny-a/model/config.json",
                           "tests/data/tiny-b/model/config.json", "models/nano/config.json"}) {
    const Config config = Golden(path);
    const fs::path dir = folder.path() / std::to_string(config.vocab_size);
    const Result<SynthesisSummary> summary = WriteSynthetic(config, dir, Options(1));
    ASSERT_TRUE(summary.ok()) << summary.status().ToString();
    const Result<Checkpoint> opened = Checkpoint::Open(dir);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    EXPECT_EQ(opened->tensor_count(), summary->tensors);
    EXPECT_EQ(static_cast<uint64_t>(opened->total_bytes()), summary->bytes);
    EXPECT_EQ(ToJson(opened->config()), ToJson(config));
    EXPECT_TRUE(GenerationDefaults::Load(dir).value().do_sample);
    EXPECT_FALSE(fs::exists(dir / "engram_token_map.bin"));
    const auto tokenizer = text::Tokenizer::Load(dir / "tokenizer.json").value();
    EXPECT_EQ(tokenizer.vocab_size(), config.vocab_size);
    EXPECT_EQ(ComputeTokenMap(tokenizer).value().distinct, config.engram_compressed_vocab_size);
    EXPECT_EQ(tokenizer.IdOfSpecial("<｜begin▁of▁sentence｜>"), config.bos_token_id);
    EXPECT_TRUE(tokenizer.IdOfSpecial("<think>").has_value());
  }
}

// Every tensor of two checkpoints, compared by name.
bool SameTensors(const fs::path& a, const fs::path& b) {
  const auto left = Checkpoint::Open(a).value();
  const auto right = Checkpoint::Open(b).value();
  for (const ExpectedTensor& tensor : ExpectedTensors(left.config())) {
    const tensor::View x = left.Get(tensor.name);
    const tensor::View y = right.Get(tensor.name);
    if (std::memcmp(x.data, y.data, static_cast<size_t>(x.bytes())) != 0) return false;
  }
  return true;
}

TEST(Synth, TensorsDependOnTheSeedAlone) {
  const ScratchFolder folder;
  const fs::path one = folder.path() / "one";
  const fs::path many = folder.path() / "many";
  const fs::path other = folder.path() / "other";
  ASSERT_EQ(WriteSynthetic(TinyA(), one, Options(7)).value().shards, 1);
  ASSERT_GT(WriteSynthetic(TinyA(), many, Options(7, 100'000)).value().shards, 10);
  ASSERT_TRUE(WriteSynthetic(TinyA(), other, Options(8)).ok());
  EXPECT_TRUE(SameTensors(one, many));
  EXPECT_FALSE(SameTensors(one, other));
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  double sum = 0;
  double square = 0;
  for (const float x : values) {
    sum += x;
    square += static_cast<double>(x) * x;
  }
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(square / n - sum / n * sum / n)};
}

// Values of a BF16 tensor, or of an FP8 or FP4 one with its scales applied.
std::vector<float> Values(const Checkpoint& checkpoint, const std::string& name) {
  const tensor::View weight = checkpoint.Get(name + ".weight");
  std::vector<float> out;
  const int64_t rows = weight.shape[0];
  const int64_t stored = weight.bytes() / rows;
  for (int64_t i = 0; weight.dtype == tensor::DType::kBF16 && i < weight.shape.elements(); ++i) {
    out.push_back(tensor::ToFloat(weight.as<tensor::BF16>()[i]));
  }
  if (weight.dtype == tensor::DType::kBF16) return out;
  const tensor::View scale = checkpoint.Get(name + ".scale");
  const bool packed = weight.dtype == tensor::DType::kI8;
  const int64_t rows_per_scale = rows / scale.shape[0];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < stored * (packed ? 2 : 1); ++c) {
      const uint8_t byte = weight.as<uint8_t>()[r * stored + (packed ? c / 2 : c)];
      const float code = !packed      ? tensor::E4M3ToFloat(byte)
                         : c % 2 == 0 ? tensor::E2M1ToFloat(byte & 15)
                                      : tensor::E2M1ToFloat(byte >> 4);
      const int64_t group = r / rows_per_scale * scale.shape[1] + c / 32;
      out.push_back(code * tensor::E8M0ToFloat(scale.as<uint8_t>()[group]));
    }
  }
  return out;
}

TEST(Synth, HasThePublishedStatistics) {
  const ScratchFolder folder;
  ASSERT_TRUE(WriteSynthetic(Golden("models/nano/config.json"), folder.path(), Options(3)).ok());
  const auto checkpoint = Checkpoint::Open(folder.path()).value();
  const auto expect = [&](const char* name, double mean, double deviation) {
    const Moments moments = MomentsOf(Values(checkpoint, name));
    EXPECT_NEAR(moments.mean, mean, 0.05 * deviation + 0.01 * mean) << name;
    EXPECT_NEAR(moments.deviation, deviation, 0.08 * deviation) << name;
  };
  expect("embed", 0, 0.12);
  expect("layers.3.attn_norm", 0.025, 0.0025);
  expect("layers.3.attn.wq_a", 0, 1.6 / std::sqrt(256.0));
  expect("layers.3.attn.wq_b", 0, 0.95 / std::sqrt(128.0));
  expect("layers.3.attn.wo_b", 0, 1.9 / std::sqrt(128.0));
  expect("layers.3.ffn.gate", 0, 2.9 / std::sqrt(256.0));
  expect("layers.3.ffn.experts.5.w1", 0, 1.5 / std::sqrt(256.0));
  expect("layers.3.ffn.experts.5.w2", 0, 1.05 / std::sqrt(128.0));
  expect("layers.1.engram.embed", 0, 0.12);
}

// Neighbouring groups must differ in scale, or a reader that mixes scales up would go unnoticed.
TEST(Synth, ScalesVary) {
  const ScratchFolder folder;
  ASSERT_TRUE(WriteSynthetic(TinyA(), folder.path(), Options(3)).ok());
  const auto checkpoint = Checkpoint::Open(folder.path()).value();
  const tensor::View scale = checkpoint.Get("layers.0.attn.wq_b.scale");
  const auto* codes = scale.as<uint8_t>();
  EXPECT_NE(std::count(codes, codes + scale.bytes(), codes[0]), scale.bytes());
}

TEST(Synth, RefusesAFullFolderAndLeavesNothingBehind) {
  const ScratchFolder folder;
  const fs::path dir = folder.path() / "out";
  fs::create_directories(dir);
  ASSERT_TRUE(base::WriteFile(dir / "mine", "keep").ok());
  ExpectError(WriteSynthetic(TinyA(), dir, Options(0)).status(), "exists and is not empty");
  Config huge = Golden("tests/data/released_config.json");
  huge.num_hidden_layers = 40;
  huge.engram_vocab_size = int64_t{1} << 31;
  huge.engram_num_embeddings = EngramTableRows(huge);
  ExpectError(WriteSynthetic(huge, folder.path() / "huge", Options(0)).status(), "has only");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Synth, SmallVocabularyGetsAMadeUpMap) {
  const ScratchFolder folder;
  Config config = TinyA();
  config.vocab_size = 64;
  config.image_token_id = 62;
  config.dspark_noise_token_id = 63;
  config.engram_compressed_vocab_size = 50;
  ASSERT_TRUE(WriteSynthetic(config, folder.path(), Options(0)).ok());
  EXPECT_FALSE(fs::exists(folder.path() / "tokenizer.json"));
  const TokenMap map = LoadTokenMap(folder.path(), config).value();
  EXPECT_EQ(map.ids.size(), 64u);
  EXPECT_EQ(map.distinct, 50);
}

// The vocabulary of the release: chat tokens at their released ids, 99,092 keys.
TEST(Synth, ReleasedVocabulary) {
  const Config config = Golden("tests/data/released_config.json");
  const auto vocabulary = MakeVocabulary(config).value().value();
  EXPECT_TRUE(vocabulary.folds_as_configured);
  EXPECT_EQ(vocabulary.tokens[128799], "<｜System｜>");
  EXPECT_EQ(vocabulary.tokens[128803], "<｜User｜>");
  EXPECT_EQ(vocabulary.tokens[128822], "</think>");
  const auto tokenizer = text::Tokenizer::Parse(TokenizerJson(vocabulary)).value();
  EXPECT_EQ(tokenizer.vocab_size(), 129280);
  EXPECT_EQ(ComputeTokenMap(tokenizer).value().distinct, 99092);
}

// A random legal config of a few kilobytes to a few hundred.
Config RandomConfig(std::mt19937& rng) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  Config c = TinyA();
  c.hidden_size = 32 * pick(1, 3);
  c.moe_intermediate_size = 32 * pick(1, 2);
  c.o_groups = pick(1, 2);
  c.num_attention_heads = c.o_groups * pick(1, 3);
  c.head_dim = 32 * pick(1, 2);
  c.qk_rope_head_dim = 2 * pick(1, 16);
  c.n_routed_experts = pick(2, 6);
  c.num_experts_per_tok = pick(1, 2);
  c.hc_mult = pick(1, 4);
  c.engram_n_heads = pick(1, 3);
  c.engram_max_ngram_size = pick(2, 4);
  c.engram_vocab_size = pick(20, 90);
  c.vocab_size = pick(290, 500);
  c.image_token_id = c.vocab_size - 1;
  c.dspark_noise_token_id = c.vocab_size - 2;
  c.engram_compressed_vocab_size = pick(1, c.vocab_size);
  c.engram_num_embeddings = EngramTableRows(c);
  return c;
}

TEST(Synth, RandomConfigsOpen) {
  const ScratchFolder folder;
  std::mt19937 rng(1);
  for (int i = 0; i < 40; ++i) {
    const Config config = RandomConfig(rng);
    const fs::path dir = folder.path() / std::to_string(i);
    const Result<SynthesisSummary> summary = WriteSynthetic(config, dir, Options(5));
    ASSERT_TRUE(summary.ok()) << summary.status().ToString() << ToJson(config);
    const Status opened = Checkpoint::Open(dir).status();
    ASSERT_TRUE(opened.ok()) << opened.ToString() << ToJson(config);
    const Result<TokenMap> map = LoadTokenMap(dir, config);
    ASSERT_TRUE(map.ok()) << map.status().ToString() << ToJson(config);
    fs::remove_all(dir);
  }
}

TEST(NormalQuantiles, AreStandardAndSymmetric) {
  const auto& q = NormalQuantiles();
  double square = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    EXPECT_EQ(q[i], -q[q.size() - 1 - i]);
    square += static_cast<double>(q[i]) * q[i];
  }
  EXPECT_NEAR(square / kQuantiles, 1.0, 1e-6);
  EXPECT_NEAR(q.back(), 3.7, 0.1);
}

TEST(ElementDraws, DoNotDependOnWhereTheyBegin) {
  const ElementDraws draws(9, "name");
  std::vector<uint16_t> all(100);
  draws.Fill(0, all);
  std::vector<uint16_t> part(50);
  draws.Fill(37, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 37));
}

}  // namespace
}  // namespace thalweg::checkpoint
