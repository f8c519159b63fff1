// ParseJson takes exactly the documents of the JSON standard within its limits, and keeps what they
// say: order, numbers and text.
#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace thalweg::base {
namespace {

bool Accepts(std::string_view text, JsonLimits limits = {}) {
  return ParseJson(text, "test", limits).ok();
}

TEST(JsonText, WhatIsNotJsonIsRefused) {
  for (const char* bad : {"",
                          " ",
                          "{",
                          "[1,]",
                          "{\"a\":1,}",
                          "{a:1}",
                          "{'a':1}",
                          "[01]",
                          "[+1]",
                          "[.5]",
                          "[1.]",
                          "[NaN]",
                          "[Infinity]",
                          "[0x1]",
                          "nul",
                          "\"\n\"",
                          "\"\\x41\"",
                          "\"\\ud800\"",
                          "// c\n1",
                          "[1] [2]",
                          "\xef\xbb\xbf{",
                          "\"\xc0\x80\"",
                          "\"\xed\xa0\x80\"",
                          "[1e999]"}) {
    EXPECT_FALSE(Accepts(bad)) << bad;
  }
}

TEST(JsonText, WhatIsJsonIsTaken) {
  for (const char* good :
       {"null", "true", "-0", "1e-9", "\"\"", "\"\\ud83d\\ude00\"", "[]", "{}", " [ 1 , 2 ] ",
        "{\"\":{}}", "18446744073709551615", "-9223372036854775808"}) {
    EXPECT_TRUE(Accepts(good)) << good;
  }
}

TEST(JsonText, AZeroByteDoesNotEndTheText) {
  using std::string_view_literals::operator""sv;
  EXPECT_FALSE(Accepts("3\0"sv));
  EXPECT_FALSE(Accepts("{\"a\": 1}\0 and more"sv));
  EXPECT_FALSE(Accepts("\"\0\""sv));
}

TEST(JsonText, ErrorsNameTheDocumentAndTheByte) {
  const Status status = ParseJson("{\"a\":1,}", "config.json").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("config.json"), std::string::npos);
  EXPECT_NE(status.message().find("byte 8"), std::string::npos) << status.message();
}

TEST(JsonText, WholeNumbersKeepEveryDigit) {
  const Result<Json> json = ParseJson("[9007199254740993, -9223372036854775808]", "test");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)[0].get<int64_t>(), 9007199254740993);
  EXPECT_EQ((*json)[1].get<int64_t>(), INT64_MIN);
}

TEST(JsonLimit, DepthCountsContainers) {
  EXPECT_TRUE(Accepts("[[[1]]]", {.max_depth = 3}));
  EXPECT_FALSE(Accepts("[[[[]]]]", {.max_depth = 3}));
  EXPECT_FALSE(Accepts("{\"a\":{\"b\":{\"c\":{}}}}", {.max_depth = 3}));
}

TEST(JsonLimit, ElementsCountValuesAndKeys) {
  EXPECT_TRUE(Accepts("{\"a\":1}", {.max_elements = 3}));
  EXPECT_FALSE(Accepts("{\"a\":1}", {.max_elements = 2}));
}

TEST(JsonText, EqualKeysInDifferentObjectsOrSpellings) {
  EXPECT_TRUE(Accepts("[{\"a\":1},{\"a\":2}]"));
  EXPECT_FALSE(Accepts("{\"a\":1,\"\\u0061\":2}"));
}

}  // namespace
}  // namespace thalweg::base
