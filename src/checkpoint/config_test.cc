// Property: every released or golden config is read as it stands, what is derived from it agrees
// with the published numbers, and a config that breaks a rule is refused with one message that
// names the field and the rule.
#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "checkpoint/test_files.h"

namespace thalweg::checkpoint {
namespace {

using base::Json;

const char* const kGoldenConfigs[] = {
    "tests/data/released_config.json", "tests/data/tiny-a/model/config.json",
    "tests/data/tiny-b/model/config.json", "models/nano/config.json"};

Config Released() { return Config::Load(SourceFile(kGoldenConfigs[0])).value(); }

TEST(Config, ReadsTheReleasedFields) {
  const Config c = Released();
  EXPECT_EQ(c.vocab_size, 129280);
  EXPECT_EQ(c.hidden_size, 5120);
  EXPECT_EQ(c.rms_norm_eps, 1e-20f);
  EXPECT_EQ(c.hc_eps, 1e-6f);
  EXPECT_EQ(c.rope_scaling.original_max_position_embeddings, 65536);
  EXPECT_EQ(c.compress_ratios.size(), 43u);
  EXPECT_EQ(c.engram_num_embeddings, (std::vector<int64_t>{384006168, 384016682}));
  EXPECT_EQ(c.dspark_target_layer_ids, (std::vector<int64_t>{37, 38, 39}));
  EXPECT_EQ(c.vision.min_pixels, 295936);
  EXPECT_FALSE(c.vision.max_wh_ratio.has_value());
  EXPECT_EQ(c.EngramColumns(), 24);
  EXPECT_EQ(c.HcCoefficients(), 24);
  EXPECT_EQ(c.DecoderBegin(), 20);
}

TEST(Config, DerivedNumbersOfTheRelease) {
  const Config c = Released();
  EXPECT_EQ(KvBytesPerToken(c), 890.0);
  EXPECT_EQ(WindowBytesPerSequence(c), 43 * 128 * 528);
  const ActiveParameters active = CountActiveParameters(c);
  EXPECT_NEAR(static_cast<double>(active.prefill), 7.86e9, 0.005e9);
  EXPECT_NEAR(static_cast<double>(active.decode), 16.07e9, 0.005e9);
}

// One line per layer, as in spec/model.md 1.3.
std::string Describe(const LayerPlan& p) {
  return fmt::format("{} {} kv{} ix{}{}{}{}{}{}", p.ratio, LayerModeName(p.mode), p.kv_owner,
                     p.index_source, p.makes_candidates ? " makes" : "",
                     p.uses_candidates ? " uses" : "",
                     p.engram ? fmt::format(" engram{}", p.engram_index) : "",
                     p.tap_index >= 0 ? fmt::format(" tap{}", p.tap_index) : "",
                     p.draft     ? " draft"
                     : p.decoder ? " decoder"
                                 : "");
}

TEST(LayerPlan, IsTheReleasedTable) {
  const std::vector<LayerPlan> plans = PlanLayers(Released());
  ASSERT_EQ(plans.size(), 43u);
  EXPECT_EQ(Describe(plans[0]), "0 window kv-1 ix-1");
  EXPECT_EQ(Describe(plans[1]), "0 window kv-1 ix-1 engram0");
  EXPECT_EQ(Describe(plans[2]), "2 full kv2 ix2");
  EXPECT_EQ(Describe(plans[7]), "2 reuse kv2 ix2");
  EXPECT_EQ(Describe(plans[14]), "2 full kv14 ix14 engram1");
  EXPECT_EQ(Describe(plans[19]), "2 reuse kv14 ix14");
  EXPECT_EQ(Describe(plans[20]), "1 full kv20 ix20 makes decoder");
  EXPECT_EQ(Describe(plans[23]), "1 reuse kv20 ix20 decoder");
  EXPECT_EQ(Describe(plans[24]), "1 reindex kv20 ix24 uses decoder");
  EXPECT_EQ(Describe(plans[36]), "1 reindex kv20 ix36 uses decoder");
  EXPECT_EQ(Describe(plans[39]), "1 reuse kv20 ix36 tap2 decoder");
  EXPECT_EQ(Describe(plans[42]), "0 window kv-1 ix-1 draft");
}

TEST(Config, SurvivesWritingAndReading) {
  for (const char* path : kGoldenConfigs) {
    const Config c = Config::Load(SourceFile(path)).value();
    const std::string json = ToJson(c);
    const Result<Config> again = Config::Parse(json);
    ASSERT_TRUE(again.ok()) << path << ": " << again.status().ToString();
    EXPECT_EQ(ToJson(*again), json) << path;
    EXPECT_EQ(again->hc_eps, c.hc_eps);
    EXPECT_EQ(again->rms_norm_eps, c.rms_norm_eps);
  }
}

TEST(Config, PartsMayBeAbsent) {
  Json root = Json::parse(ReadSource("tests/data/tiny-a/model/config.json"));
  Json& text = root["text_config"];
  root.erase("vision_config");
  text["num_nextn_predict_layers"] = 0;
  text["compress_ratios"] = {0, 0, 2, 2, 1, 1, 1, 1};
  text["engram_layer_ids"] = Json::array();
  for (const char* name : {"dspark_block_size", "dspark_target_layer_ids", "engram_vocab_size",
                           "engram_num_embeddings"}) {
    text.erase(name);
  }
  const Result<Config> config = Config::Parse(root.dump());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_FALSE(config->HasVision() || config->HasDraft() || config->HasEngram());
  EXPECT_TRUE(Config::Parse(ToJson(*config)).ok());
}

struct BadConfig {
  const char* pointer;  // JSON pointer into tiny-a's config
  const char* value;    // new value as JSON; "" erases the member
  const char* message;
};

class BadConfigs : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, AreRefusedWithTheReason) {
  Json root = Json::parse(ReadSource("tests/data/tiny-a/model/config.json"));
  const Json::json_pointer pointer(GetParam().pointer);
  if (*GetParam().value == '\0') {
    root.at(pointer.parent_pointer()).erase(pointer.back());
  } else {
    root[pointer] = Json::parse(GetParam().value);
  }
  ExpectError(Config::Parse(root.dump()).status(), GetParam().message);
}

#define TEXT "/text_config/"
const BadConfig kBadConfigs[] = {
    // Presence and types.
    {"/text_config", "", "text_config is missing; the released nested layout is read"},
    {"/text_config", "[]", "text_config is missing"},
    {TEXT "hidden_size", "", "text_config.hidden_size is missing"},
    {TEXT "hidden_size", "\"128\"", "text_config.hidden_size is \"128\", not an integer"},
    {TEXT "hidden_size", "128.0", "text_config.hidden_size is 128.0, not an integer"},
    {TEXT "hidden_size", "18446744073709551615", "beyond 64 bits"},
    {TEXT "hidden_size", "null", "text_config.hidden_size is null, not an integer"},
    {TEXT "swiglu_limit", "\"10\"", "text_config.swiglu_limit is \"10\", not a number"},
    {TEXT "compress_ratios", "2", "text_config.compress_ratios is 2, not a list"},
    {TEXT "compress_ratios/1", "0.5", "text_config.compress_ratios[1] is 0.5, not an integer"},
    {TEXT "rope_scaling", "", "text_config.rope_scaling.rope_type is missing"},
    {TEXT "rope_scaling/factor", "", "text_config.rope_scaling.factor is missing"},
    {"/vision_config", "3", "vision_config is not an object"},
    {"/vision_config/max_wh_ratio", "\"no\"", "max_wh_ratio is \"no\", not a number or null"},
    // Other architectures and formats.
    {"/model_type", "\"deepseek_v4\"",
     "model_type is \"deepseek_v4\"; it must be \"deepseek_v41\""},
    {"/model_type", "", "model_type is missing"},
    {"/quantization_config", "", "quantization_config.quant_method is missing"},
    {"/quantization_config/weight_block_size", "[128,128]", "it must be [32,32]"},
    {"/quantization_config/scale_fmt", "\"float\"", "it must be \"ue8m0\""},
    {"/quantization_config/expert_dtype", "\"fp8\"", "it must be \"fp4\""},
    {TEXT "scoring_func", "\"sigmoid\"", "the router has one scoring rule"},
    {TEXT "norm_topk_prob", "false", "norm_topk_prob is false"},
    {TEXT "num_hash_layers", "3", "DeepSeek-V4.1 has no such mechanism"},
    {TEXT "attention_bias", "true", "projections have no bias"},
    {TEXT "rope_scaling/rope_type", "\"linear\"", "long contexts use YaRN"},
    {TEXT "n_shared_experts", "2", "n_shared_experts is 2; it must be 1"},
    // Ranges.
    {TEXT "vocab_size", "0", "text_config.vocab_size is 0; it must be from 1 to"},
    {TEXT "hidden_size", "-32", "text_config.hidden_size is -32; it must be from 32 to"},
    {TEXT "num_hidden_layers", "100000", "it must be from 1 to 256"},
    {TEXT "hc_mult", "0", "text_config.hc_mult is 0; it must be from 1 to 8"},
    {TEXT "hc_mult", "9", "text_config.hc_mult is 9"},
    {TEXT "hc_sinkhorn_iters", "0", "text_config.hc_sinkhorn_iters is 0"},
    {TEXT "rms_norm_eps", "0", "text_config.rms_norm_eps is 0"},
    {TEXT "hc_eps", "-1e-6", "text_config.hc_eps is -"},
    {TEXT "swiglu_limit", "1e300", "text_config.swiglu_limit is inf"},
    {TEXT "rope_theta", "0", "text_config.rope_theta is 0"},
    {TEXT "rope_scaling/factor", "0.5", "text_config.rope_scaling.factor is 0.5"},
    {TEXT "rope_scaling/beta_fast", "0.5", "it must be at least beta_slow 1"},
    {TEXT "num_nextn_predict_layers", "-1", "text_config.num_nextn_predict_layers is -1"},
    {TEXT "engram_max_ngram_size", "1", "text_config.engram_max_ngram_size is 1"},
    {"/image_token_id", "1088", "image_token_id is 1088; token ids must be below vocab_size 1088"},
    {"/pad_token_id", "-1", "pad_token_id is -1"},
    {TEXT "dspark_noise_token_id", "5000", "text_config.dspark_noise_token_id is 5000; token ids"},
    {TEXT "engram_pad_token_id", "1088", "text_config.engram_pad_token_id is 1088; token ids"},
    // Blocks and shapes.
    {TEXT "hidden_size", "100", "hidden_size is 100; it must be a multiple of 32"},
    {TEXT "moe_intermediate_size", "80",
     "moe_intermediate_size is 80; it must be a multiple of 32"},
    {TEXT "head_dim", "72", "head_dim is 72; it must be a multiple of 32"},
    {TEXT "q_lora_rank", "65", "q_lora_rank is 65; it must be a multiple of 32"},
    {TEXT "o_lora_rank", "48", "o_lora_rank is 48; it must be a multiple of 32"},
    {TEXT "index_head_dim", "40", "index_head_dim is 40; it must be a multiple of 32"},
    {TEXT "engram_head_dim", "33", "engram_head_dim is 33; it must be a multiple of 32"},
    {TEXT "qk_rope_head_dim", "15", "qk_rope_head_dim is 15; it must be even"},
    {TEXT "qk_rope_head_dim", "66", "qk_rope_head_dim is 66; it must be even and at most head_dim"},
    {TEXT "qk_rope_head_dim", "64", "at most head_dim 64 and index_head_dim 32"},
    {TEXT "o_groups", "3", "o_groups is 3; it must divide num_attention_heads 4"},
    {TEXT "num_experts_per_tok", "9", "num_experts_per_tok is 9; there are only 8 routed experts"},
    {TEXT "dspark_num_experts_per_tok", "5", "dspark_num_experts_per_tok is 5; there are only 4"},
    // Layer lists.
    {TEXT "compress_ratios", "[0,0,2,2,1,1,1,1]",
     "has 8 entries; it needs 11: 8 layers and 3 draft"},
    {TEXT "compress_ratios/3", "4", "text_config.compress_ratios[3] is 4; it must be 0, 1 or 2"},
    {TEXT "compress_ratios/9", "1", "compress_ratios[9] is 1; it must be 0 for a draft stage"},
    {TEXT "kv_source_layer_ids", "[]", "kv_source_layer_ids is empty"},
    {TEXT "kv_source_layer_ids", "[4,2]", "kv_source_layer_ids is [4, 2]; it must ascend"},
    {TEXT "kv_source_layer_ids", "[2,2,4]", "it must ascend without repetition"},
    {TEXT "kv_source_layer_ids", "[2,8]", "kv_source_layer_ids[1] is 8; layers are 0 to 7"},
    {TEXT "index_source_layer_ids", "[2,-4]", "index_source_layer_ids[1] is -4"},
    {TEXT "index_source_layer_ids", "[1,2,4,6]",
     "layer 1 is in text_config.index_source_layer_ids"},
    {TEXT "index_source_layer_ids", "[2,6]",
     "layer 4 is in text_config.kv_source_layer_ids but not"},
    {TEXT "engram_layer_ids", "[3,1]", "engram_layer_ids is [3, 1]; it must ascend"},
    {TEXT "engram_layer_ids", "[1]", "engram_num_embeddings has 2 entries for 1 layers"},
    {TEXT "dspark_target_layer_ids", "[5,6,8]", "dspark_target_layer_ids[2] is 8"},
    {TEXT "dspark_target_layer_ids", "[]", "dspark_target_layer_ids is empty"},
    {TEXT "compress_ratios/1", "2", "layer 1 has compress ratio 2, but no layer of"},
    {TEXT "compress_ratios/3", "1", "layer 3 has compress ratio 1, but reads the KV of layer 2"},
    // Candidates, Engram, vision.
    {TEXT "candidate_source_layer_id", "2", "it must be the last of kv_source_layer_ids, 4"},
    {TEXT "index_topk", "25",
     "index_topk is 25; the candidate pool of 4 blocks of 8 allows at most"},
    {TEXT "engram_compressed_vocab_size", "1089", "cannot give more than vocab_size 1088"},
    {TEXT "engram_num_embeddings/0", "0", "table rows must be from 1"},
    {"/vision_config/num_hidden_layers", "0", "vision_config.num_hidden_layers must be at least 1"},
    {"/vision_config/hidden_size", "33", "vision_config.hidden_size 33 over num_attention_heads 2"},
    {"/vision_config/max_wh_ratio", "0.5", "vision_config.max_wh_ratio is 0.5"},
};
#undef TEXT

INSTANTIATE_TEST_SUITE_P(Table, BadConfigs, testing::ValuesIn(kBadConfigs));

TEST(Config, TooManyExpertTensorsAreRefused) {
  Config c = Released();
  c.n_routed_experts = 4096;
  c.dspark_n_routed_experts = 4096;
  ExpectError(Validate(c), "the limit is 1000000; lower n_routed_experts");
}

TEST(Config, MalformedDocumentsNameTheFile) {
  ExpectError(Config::Parse("{", "x/config.json").status(), "x/config.json is not valid JSON");
  ExpectError(Config::Parse("[]", "x/config.json").status(), "x/config.json: the document is not");
  ExpectError(Config::Parse(R"({"a":1,"a":2})").status(), "duplicate key");
  EXPECT_EQ(Config::Load("/nonexistent/config.json").status().code(), base::Code::kNotFound);
}

TEST(GenerationDefaults, ReadsWhatIsThereAndDefaultsTheRest) {
  const GenerationDefaults nano = GenerationDefaults::Load(SourceFile("models/nano")).value();
  EXPECT_TRUE(nano.do_sample);
  EXPECT_EQ(nano.temperature, 0.6);
  EXPECT_EQ(nano.top_p, 0.95);
  EXPECT_EQ(nano.eos_token_ids, std::vector<int64_t>{1});
  const GenerationDefaults none = GenerationDefaults::Load("/nonexistent").value();
  EXPECT_FALSE(none.do_sample);
  EXPECT_EQ(none.temperature, 1.0);
  EXPECT_EQ(GenerationDefaults::Parse(R"({"top_k": -1, "top_p": null})").value().top_k, 0);
  EXPECT_EQ(GenerationDefaults::Parse(R"({"eos_token_id": [1, 2]})").value().eos_token_ids.size(),
            2u);
}

TEST(GenerationDefaults, RefusesNonsense) {
  const auto error = [](const char* json) { return GenerationDefaults::Parse(json).status(); };
  ExpectError(error("[]"), "generation_config.json is not an object");
  ExpectError(error(R"({"temperature": "hot"})"), "temperature is not a number");
  ExpectError(error(R"({"temperature": -1})"), "temperature is -1; it must be from 0 to 100");
  ExpectError(error(R"({"top_p": 1.5})"), "top_p is 1.5");
  ExpectError(error(R"({"top_k": 1.5})"), "top_k is 1.5, not an integer");
  ExpectError(error(R"({"do_sample": 1})"), "do_sample is not true or false");
  ExpectError(error(R"({"eos_token_id": "x"})"), "eos_token_id must be a token id");
}

}  // namespace
}  // namespace thalweg::checkpoint
