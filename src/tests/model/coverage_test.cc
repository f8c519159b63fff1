// The random configs are all valid, and together they reach every case that the properties speak
// about: each ratio and layer mode, prompts beyond the window, beyond the selection and beyond the
// candidate pool, odd lengths, owners and Engram at the first layer and inside the decoder, and so
// on. A generator that stops covering a case fails here.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "model/replay.h"
#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

using checkpoint::Config;
using checkpoint::LayerMode;
using checkpoint::LayerPlan;
using Counts = std::map<std::string, int>;

// Cases of one layer.
void CountLayer(const Config& c, const LayerPlan& plan, int layer, int64_t prompt,
                std::set<std::string>* seen) {
  seen->insert("ratio " + std::to_string(plan.ratio) + (plan.decoder ? " decoder" : " encoder"));
  if (plan.owns_kv && layer == 0) seen->insert("owner at layer 0");
  if (plan.owns_kv && layer > 0 && plan.ratio == 2) seen->insert("owner of pairs behind layer 0");
  if (plan.mode == LayerMode::kReuse) seen->insert("reuse");
  if (plan.mode == LayerMode::kReindex) {
    seen->insert(plan.uses_candidates ? "reindex in the pool" : "reindex in the encoder");
  }
  if (plan.engram && layer == 0) seen->insert("Engram at layer 0");
  if (plan.engram && plan.decoder) seen->insert("Engram in the decoder");
  if (plan.engram && layer > c.DecoderBegin()) seen->insert("Engram behind the cut");
  if (plan.engram && layer < c.DecoderBegin()) seen->insert("Engram in the encoder");
  if (plan.tap_index >= 0) seen->insert(plan.decoder ? "tap in the decoder" : "tap in the encoder");
  const int64_t pool = c.candidate_topk_blocks * c.candidate_block_size;
  if (plan.owns_index && prompt / plan.ratio > c.index_topk) {
    seen->insert("ratio " + std::to_string(plan.ratio) + " prompt > top-k");
  }
  if (plan.uses_candidates && prompt > pool) seen->insert("prompt > candidate pool in use");
}

void CountSizes(const Config& c, int64_t prompt, std::set<std::string>* seen) {
  seen->insert(prompt % 2 == 1 ? "odd prompt" : "even prompt");
  seen->insert(prompt > c.sliding_window ? "prompt > window" : "prompt <= window");
  const int64_t ring = model::DefaultKeepTokens(c);
  seen->insert(prompt > ring ? "prompt > ring" : "prompt <= ring");
  seen->insert(prompt > model::HaloTokens(c) ? "prompt > halo" : "prompt <= halo");
  if (prompt > 64) seen->insert("prompt > block");
  if (prompt == 1) seen->insert("prompt of one token");
  if (prompt > 3 * ring) seen->insert("prompt > 3 rings");
  seen->insert("streams " + std::to_string(c.hc_mult));
  seen->insert("heads " + std::to_string(c.num_attention_heads));
  seen->insert("head_dim " + std::to_string(c.head_dim));
  seen->insert("top experts " + std::to_string(c.num_experts_per_tok));
  seen->insert("draft stages " + std::to_string(c.num_nextn_predict_layers));
  if (c.HasDraft()) seen->insert("draft block " + std::to_string(c.dspark_block_size));
  seen->insert("Engram layers " + std::to_string(c.engram_layer_ids.size()));
  if (c.HasEngram()) seen->insert("n-gram " + std::to_string(c.engram_max_ngram_size));
  if (c.o_groups == 2) seen->insert("two output groups");
  if (c.kv_source_layer_ids.size() >= 3) seen->insert("three owners");
  if (c.DecoderBegin() == c.num_hidden_layers - 1) seen->insert("decoder of one layer");
  if (c.sliding_window + c.index_topk > 16) seen->insert("many slots");
}

void CountImages(const Text& prompt, std::set<std::string>* seen) {
  for (const uint8_t mark : prompt.image) seen->insert(mark != 0 ? "image token" : "text token");
}

Counts CountCases() {
  const Sweep sweep = TheSweep();
  Counts counts;
  for (uint64_t seed = sweep.first_seed; seed < sweep.first_seed + sweep.seeds; ++seed) {
    const Config config = RandomConfig(seed);
    const Status valid = checkpoint::Validate(config);
    EXPECT_TRUE(valid.ok()) << "seed " << seed << ": " << valid.ToString();
    const Text prompt = RandomPrompt(config, seed, sweep.longest_prompt);
    std::set<std::string> seen;
    const std::vector<LayerPlan> plans = checkpoint::PlanLayers(config);
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      const LayerPlan& plan = plans[static_cast<size_t>(layer)];
      CountLayer(config, plan, static_cast<int>(layer), prompt.size(), &seen);
    }
    CountSizes(config, prompt.size(), &seen);
    CountImages(prompt, &seen);
    for (const std::string& name : seen) ++counts[name];
  }
  return counts;
}

constexpr const char* kCommon[] = {"ratio 0 encoder",
                                   "ratio 0 decoder",
                                   "ratio 1 encoder",
                                   "ratio 1 decoder",
                                   "ratio 2 encoder",
                                   "owner at layer 0",
                                   "owner of pairs behind layer 0",
                                   "reuse",
                                   "reindex in the pool",
                                   "reindex in the encoder",
                                   "Engram in the encoder",
                                   "Engram behind the cut",
                                   "tap in the decoder",
                                   "tap in the encoder",
                                   "ratio 1 prompt > top-k",
                                   "ratio 2 prompt > top-k",
                                   "prompt > candidate pool in use",
                                   "odd prompt",
                                   "even prompt",
                                   "prompt > window",
                                   "prompt <= window",
                                   "prompt > ring",
                                   "prompt <= ring",
                                   "prompt > halo",
                                   "prompt <= halo",
                                   "streams 2",
                                   "streams 3",
                                   "streams 4",
                                   "heads 1",
                                   "heads 2",
                                   "heads 3",
                                   "heads 4",
                                   "head_dim 32",
                                   "head_dim 64",
                                   "top experts 1",
                                   "top experts 2",
                                   "top experts 3",
                                   "draft stages 0",
                                   "draft stages 1",
                                   "draft stages 2",
                                   "draft stages 3",
                                   "Engram layers 0",
                                   "Engram layers 1",
                                   "Engram layers 2",
                                   "n-gram 2",
                                   "n-gram 3",
                                   "n-gram 4",
                                   "two output groups",
                                   "three owners",
                                   "decoder of one layer",
                                   "image token",
                                   "text token",
                                   "many slots"};
constexpr const char* kRare[] = {
    "Engram at layer 0", "Engram in the decoder", "prompt > 3 rings", "draft block 2",
    "draft block 3",     "draft block 4",         "draft block 5",    "draft block 6",
};

TEST(Coverage, TheSweepReachesEveryCase) {
  const Counts counts = CountCases();
  const auto count = [&](const char* name) {
    const auto at = counts.find(name);
    return at == counts.end() ? 0 : at->second;
  };
  for (const char* name : kCommon) EXPECT_GE(count(name), 10) << name;
  for (const char* name : kRare) EXPECT_GE(count(name), 3) << name;
}

TEST(Coverage, TheSweepHasAtLeast200Configs) { EXPECT_GE(TheSweep().seeds, 200u); }

TEST(Coverage, SeedsGiveDifferentConfigsAndTheSameOneAgain) {
  std::set<std::string> texts;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    texts.insert(checkpoint::ToJson(RandomConfig(seed)));
    EXPECT_EQ(checkpoint::ToJson(RandomConfig(seed)), checkpoint::ToJson(RandomConfig(seed)));
  }
  EXPECT_EQ(texts.size(), 100u);
}

}  // namespace
}  // namespace thalweg::tests
