// The checks can fail: each typical mistake, switched on alone, makes verify fail on at least one
// of the golden folders and name the layer and part where it first shows. The pinned places are the
// content of docs/verification.md.
#include "tests/mistakes/mistakes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <string>

namespace thalweg::tests {
namespace {

const std::filesystem::path kData = std::filesystem::path(THALWEG_SOURCE_DIR) / "tests/data";

// The first failing check in each folder; empty: the folder does not notice.
struct Place {
  std::string tiny_a;
  std::string tiny_b;
};

const std::map<std::string_view, Place>& Places() {
  static const std::map<std::string_view, Place> places = {
      {"mHC matrix transposed", {"dump/rand17/0/hc_ffn_pre", "dump/rand16/0/hc_ffn_pre"}},
      {"sublayer uses its own pre-mix", {"dump/rand17/0/ffn_in", "dump/rand16/0/attn_in"}},
      {"attention sink ignored", {"dump/rand17/0/attn_out", "dump/rand16/0/attn_out"}},
      {"no inverse rope on the output", {"dump/rand17/0/attn_out", "dump/rand16/0/attn_out"}},
      {"ratio-1 layers with the ratio-0 rope",
       {"dump/rand17/4/compressed_kv", "dump/rand16/5/compressed_kv"}},
      {"YaRN ignored", {"dump/rand17/2/compressed_kv", "dump/rand16/1/compressed_kv"}},
      {"window one token short", {"dump/rand17/0/attn_out", "dump/rand33/0/attn_out"}},
      {"window KV not quantised", {"dump/rand17/0/window_kv", "dump/rand16/0/window_kv"}},
      {"compressed KV quantised like the index (32, E8M0)",
       {"dump/rand17/2/compressed_kv", "dump/rand16/1/compressed_kv"}},
      {"compressed KV and index not quantised",
       {"dump/rand17/2/compressed_kv", "dump/rand16/1/compressed_kv"}},
      {"indexer ignored (all visible positions)",
       {"dump/rand17/4/attn_out", "dump/rand33/5/attn_out"}},
      {"candidate pool ignored", {"dump/rand35/6/index_sel", "dump/rand33/7/index_sel"}},
      {"index_topk smaller by one", {"dump/rand17/4/index_sel", "dump/rand33/5/index_sel"}},
      {"routing weight after w2", {"dump/rand17/0/moe_out", "dump/rand16/0/moe_out"}},
      {"router bias inside the weights",
       {"dump/rand17/0/router_weights", "dump/rand16/0/router_weights"}},
      {"routing weights not normalised",
       {"dump/rand17/0/router_weights", "dump/rand16/0/router_weights"}},
      {"sigmoid scores", {"dump/rand17/0/router_experts", "dump/rand16/0/router_experts"}},
      {"SwiGLU clamp missing", {"dump/rand17/0/moe_out", "dump/rand16/0/moe_out"}},
      {"Engram gate without the signed square root",
       {"dump/rand17/1/engram_streams_out", "dump/rand16/0/engram_streams_out"}},
      {"Engram off", {"dump/rand17/1/engram_streams_out", "dump/rand16/0/engram_streams_out"}},
      {"activations not quantised (W8A16 / W4A16)",
       {"dump/rand17/0/window_kv", "dump/rand16/0/window_kv"}},
  };
  return places;
}

std::string FirstFailure(const Mistake& mistake, const std::string& folder) {
  kernels::Ops ops = kernels::ReferenceOps();
  tools::VerifyOptions options{
      .golden_dir = kData / folder, .ops = &ops, .threads = 2, .stop_at_first_failure = true};
  SetRopeConfig(checkpoint::Config::Load(options.golden_dir / "model/config.json").value());
  if (mistake.change_ops != nullptr) mistake.change_ops(&ops);
  if (mistake.change_formats != nullptr) mistake.change_formats(&options);
  const Result<tools::VerifyReport> report = tools::Verify(options);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  const tools::Check* first = report.ok() ? report->FirstFailure() : nullptr;
  return first == nullptr ? "" : first->id.name;
}

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsFoundWhereItFirstShows) {
  const Mistake& mistake = GetParam();
  const auto place = Places().find(mistake.name);
  ASSERT_NE(place, Places().end()) << "no pinned place for: " << mistake.name;
  EXPECT_FALSE(place->second.tiny_a.empty() && place->second.tiny_b.empty());
  EXPECT_EQ(FirstFailure(mistake, "tiny-a"), place->second.tiny_a);
  EXPECT_EQ(FirstFailure(mistake, "tiny-b"), place->second.tiny_b);
}

std::string TestName(const testing::TestParamInfo<Mistake>& mistake) {
  std::string name;
  for (const char c : mistake.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, MistakeTest, testing::ValuesIn(Mistakes().begin(), Mistakes().end()),
                         TestName);

TEST(Mistakes, NoneOnAndBothFoldersPass) {
  EXPECT_EQ(FirstFailure({"none"}, "tiny-a"), "");
  EXPECT_EQ(FirstFailure({"none"}, "tiny-b"), "");
}

TEST(Mistakes, EveryPinnedPlaceBelongsToOne) { EXPECT_EQ(Places().size(), Mistakes().size()); }

}  // namespace
}  // namespace thalweg::tests
