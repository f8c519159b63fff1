// Property: primes, offsets and multipliers are those of the release and of the golden models, and
// the generator behind them is numpy's.
#include "checkpoint/engram_tables.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "checkpoint/test_files.h"

namespace thalweg::checkpoint {
namespace {

using base::Json;

std::vector<int64_t> Flat(const Json& nested) {
  std::vector<int64_t> out;
  for (const Json& order : nested) {
    for (const Json& prime : order) out.push_back(prime.get<int64_t>());
  }
  return out;
}

void ExpectTables(const Config& config, const Json& golden) {
  const std::vector<EngramTable> tables = BuildEngramTables(config).value();
  ASSERT_EQ(tables.size(), golden["primes_order_major"].size());
  for (size_t i = 0; i < tables.size(); ++i) {
    EXPECT_EQ(tables[i].primes, Flat(golden["primes_order_major"][i]));
    EXPECT_EQ(Json(tables[i].multipliers), golden["multipliers_current_token_first"][i]);
    if (golden.contains("offsets")) {
      EXPECT_EQ(Json(tables[i].offsets), golden["offsets"][i]);
    }
  }
}

TEST(NumpyGenerator, KnownAnswers) {
  EXPECT_EQ(NumpyGenerator(0).NextDouble(), 0.6369616873214543);
  EXPECT_EQ(NumpyGenerator(42).NextDouble(), 0.7739560485559633);
}

TEST(EngramTables, OfTheRelease) {
  const Config config = Config::Load(SourceFile("tests/data/released_config.json")).value();
  const Json golden = Json::parse(ReadSource("tests/data/real_constants.json"))["engram"];
  ExpectTables(config, golden);
  EXPECT_EQ(Json(EngramTableRows(config)), golden["sum_of_primes"]);
}

TEST(EngramTables, OfTheGoldenModels) {
  for (const std::string name : {"tiny-a", "tiny-b"}) {
    const Config config =
        Config::Load(SourceFile("tests/data/" + name + "/model/config.json")).value();
    ExpectTables(config,
                 Json::parse(ReadSource("tests/data/" + name + "/manifest.json"))["engram"]);
  }
}

// The sum of a hash stays below 2^63 for every compressed id.
TEST(EngramTables, ProductsStayBelow63Bits) {
  const Config config = Config::Load(SourceFile("tests/data/released_config.json")).value();
  const std::vector<EngramTable> tables = BuildEngramTables(config).value();
  for (const EngramTable& table : tables) {
    for (const int64_t multiplier : table.multipliers) {
      EXPECT_EQ(multiplier % 2, 1);
      EXPECT_LE(multiplier, INT64_MAX / (config.engram_compressed_vocab_size - 1));
    }
  }
}

TEST(EngramTables, AnotherSumIsAnError) {
  Config config = Config::Load(SourceFile("tests/data/released_config.json")).value();
  config.engram_num_embeddings[1] += 1;
  ExpectError(BuildEngramTables(config).status(),
              "engram_num_embeddings[1] is 384016683, but the primes of layer 14 sum to 384016682");
}

}  // namespace
}  // namespace thalweg::checkpoint
