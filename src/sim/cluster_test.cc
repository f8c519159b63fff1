// Cluster files are read as documented; what is wrong is named; numbers that no machine could have
// are refused before anything is computed.
#include "sim/cluster.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

namespace thalweg::sim {
namespace {

constexpr const char* kGood = R"({"format": "thalweg cluster", "version": 1,
  "model": {"hidden": 64, "experts": 8, "topk": 2, "kv_bytes": 890},
  "costs": "costs.json", "routing": {"zipf": 1, "spare": 1},
  "node_ranks": 4, "in_node": {"latency_us": 2, "gb_per_s": 100},
  "between_nodes": {"latency_us": 5, "gb_per_s": 10}, "overlap": 0.5,
  "decode": {"ranks": 4, "batches": [1, 8], "context": 1000},
  "prefill": {"ranks": 2, "prompts": [512], "step_rows": 256}})";

void ExpectBad(const std::string& from, const std::string& to, const std::string& part) {
  std::string text = kGood;
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto file = ParseCluster(text, "c.json");
  ASSERT_FALSE(file.ok()) << to;
  EXPECT_NE(file.status().message().find(part), std::string::npos) << file.status().message();
}

TEST(SimCluster, IsReadAsItStands) {
  const auto file = ParseCluster(kGood, "c.json");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->costs, "costs.json");
  EXPECT_EQ(file->cluster.decode.batches, (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(file->cluster.prefill.step_rows, 256);
  EXPECT_EQ(file->cluster.between_nodes.gb_per_s, 10);
  EXPECT_EQ(file->cluster.counts.experts, 8);
}

TEST(SimCluster, WhatIsWrongIsNamed) {
  ExpectBad("\"thalweg cluster\"", "1", "cluster.format");
  ExpectBad("\"topk\": 2", "\"topk\": 9", "model.topk");
  ExpectBad("\"hidden\": 64", "\"hidden\": 1e9", "model.hidden");
  ExpectBad("\"overlap\": 0.5", "\"overlap\": 1.5", "cluster.overlap");
  ExpectBad("\"gb_per_s\": 10}", "\"gb_per_s\": 0}", "between_nodes.gb_per_s");
  ExpectBad("\"zipf\": 1", "\"zipf\": 1, \"counts\": \"x\"", "one of counts and zipf");
  ExpectBad("\"zipf\": 1", "\"zpf\": 1", "\"zpf\"");
  ExpectBad("\"ranks\": 4", "\"ranks\": 9", "9 ranks are more than 8 experts");
  ExpectBad("[1, 8]", "[1, 1000000]", "a batch of 1000000 on 4 ranks");
  ExpectBad("[1, 8]", "[]", "decode.batches");
  ExpectBad("[1, 8]", "[0]", "decode.batches");
  ExpectBad("\"prompts\": [512], \"step_rows\": 256", "\"prompts\": [4000000], \"step_rows\": 1",
            "more than 4096 steps");
  ExpectBad("\"context\": 1000", "\"context\": 1000, \"tokens_per_step\": 2", "tokens_per_step");
}

TEST(SimCluster, MissingFilesAndCountsOfAnotherModelAreErrors) {
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      ("thalweg_sim_cluster" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::string text = kGood;
  text.replace(text.find("\"zipf\": 1"), 9, "\"counts\": \"counts.json\"");
  std::ofstream(folder / "c.json") << text;
  EXPECT_FALSE(ReadCluster(folder / "c.json").ok());
  std::ofstream(folder / "costs.json") << R"({"format": "thalweg costs", "version": 1,
      "source": "", "decode": {"layers": 1, "ops": [{"op": "a", "points": [[1, 1, 1]]}]},
      "experts": {"fixed_us": 0, "points": [[1, 1]]}})";
  std::ofstream(folder / "counts.json") << parallel::ToJson(parallel::NoCounts(1, 4));
  const auto other = ReadCluster(folder / "c.json");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("4 experts"), std::string::npos);
  std::ofstream(folder / "counts.json") << parallel::ToJson(parallel::NoCounts(1, 8));
  const auto no_prefill = ReadCluster(folder / "c.json");
  ASSERT_FALSE(no_prefill.ok());
  EXPECT_NE(no_prefill.status().message().find("no costs of it"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(SimCluster, ZipfCountsHaveItsShares) {
  const parallel::ExpertCounts counts = ZipfCounts(2, 100, 1);
  for (std::vector<int64_t> layer : counts.layers) {
    std::sort(layer.rbegin(), layer.rend());
    EXPECT_NEAR(static_cast<double>(layer[0]) / static_cast<double>(layer[9]), 10, 1e-6);
  }
  EXPECT_NE(counts.layers[0], counts.layers[1]);
  const parallel::ExpertCounts even = ZipfCounts(1, 5, 0);
  EXPECT_EQ(even.layers[0], std::vector<int64_t>(5, even.layers[0][0]));
}

}  // namespace
}  // namespace thalweg::sim
