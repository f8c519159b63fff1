// Ranks start when everything that must be equal is; otherwise every rank gets the same error,
// which names the fields that differ, their values and the ranks that have them.
#include "comm/agreement.h"

#include <gtest/gtest.h>

#include "comm/test_ranks.h"

namespace thalweg::comm {
namespace {

std::vector<std::string> AgreeOn(const std::vector<AgreedFields>& by_rank) {
  std::vector<std::string> messages(by_rank.size());
  RunRanks(static_cast<int>(by_rank.size()), [&](Communicator& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    messages[rank] = Agree(&comm, by_rank[rank]).message();
  });
  return messages;
}

TEST(Agreement, EqualRanksStart) {
  const AgreedFields fields = {{"version", "0.1"}, {"checkpoint", "abc"}};
  for (const std::string& message : AgreeOn({fields, fields, fields})) EXPECT_EQ(message, "");
}

TEST(Agreement, DifferencesAreNamedToEverybody) {
  const AgreedFields fields = {{"version", "0.1"}, {"option --block-size", "64"}, {"x", "1"}};
  AgreedFields other = fields;
  other[1].second = "128";
  const auto messages = AgreeOn({fields, fields, other, fields});
  for (const std::string& message : messages)
    EXPECT_EQ(message,
              "the ranks differ: option --block-size is 128 on rank 2 and 64 on ranks 0 to 1 and "
              "3. Start all of them with the same program, options and files");
}

TEST(Agreement, AFieldThatOneRankHasNotIsNamed) {
  const auto messages = AgreeOn({{{"version", "1"}}, {{"version", "1"}, {"placement", "p"}}});
  EXPECT_EQ(messages[0],
            "the ranks differ: placement is nothing on rank 0 and p on rank 1. Start all of them "
            "with the same program, options and files");
}

TEST(Agreement, OrderCounts) {
  const auto messages = AgreeOn({{{"a", "1"}, {"b", "2"}}, {{"b", "2"}, {"a", "1"}}});
  EXPECT_NE(messages[1].find("in the order of options"), std::string::npos);
}

TEST(Agreement, LongValuesAndManyFieldsAreCut) {
  AgreedFields first, second;
  for (int i = 0; i < 20; ++i) {
    first.emplace_back("field " + std::to_string(i), std::string(5000, 'x') + "1");
    second.emplace_back("field " + std::to_string(i), std::string(5000, 'x') + "2");
  }
  const std::string text = DescribeDifferences({first, second});
  EXPECT_LT(text.size(), 5000U);
  EXPECT_NE(text.find("; and 12 more"), std::string::npos) << text;
}

TEST(Agreement, BytesOfAnotherVersionAreRefused) {
  EXPECT_EQ(DecodeFields("{}", "options of rank 1").status().message(),
            "options of rank 1: must be a list of [name, value] texts");
  EXPECT_FALSE(DecodeFields("[[\"a\"]]", "x").ok());
  EXPECT_FALSE(DecodeFields("[[\"a\", 1]]", "x").ok());
  EXPECT_FALSE(DecodeFields("[", "x").ok());
  const AgreedFields fields = {{"a", "\n\"quoted\""}, {"b", ""}};
  EXPECT_EQ(*DecodeFields(EncodeFields(fields), "x"), fields);
}

}  // namespace
}  // namespace thalweg::comm
