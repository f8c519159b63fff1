// Base keeps its promises: strict JSON, overflow-safe sizes, known Philox answers, whole-file reads
// and writes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/math.h"
#include "base/rng.h"
#include "base/status.h"

namespace thalweg::base {
namespace {

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UnitIsOpen) {
  EXPECT_GT(OpenUnit(0), 0.0);
  EXPECT_LT(OpenUnit(~0u), 1.0);
}

TEST(Json, KeepsKeyOrder) {
  const Result<Json> json = ParseJson(R"({"b":1,"a":[true,null,1.5,"x"]})", "test");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->dump(), R"({"b":1,"a":[true,null,1.5,"x"]})");
}

TEST(Json, RefusesDuplicateKeysDepthAndGarbage) {
  EXPECT_FALSE(ParseJson(R"({"a":1,"a":2})", "test").ok());
  EXPECT_FALSE(ParseJson(R"({"a":{"b":1,"b":1}})", "test").ok());
  EXPECT_TRUE(ParseJson(R"({"a":{"b":1},"c":{"b":1}})", "test").ok());
  EXPECT_FALSE(ParseJson(std::string(100, '['), "test").ok());
  EXPECT_FALSE(ParseJson("", "test").ok());
  EXPECT_FALSE(ParseJson("{} x", "test").ok());
  EXPECT_FALSE(ParseJson("\"\xff\"", "test").ok());
  EXPECT_FALSE(ParseJson("[1,2,3]", "test", {.max_depth = 4, .max_elements = 3}).ok());
}

TEST(Math, OverflowIsSeen) {
  EXPECT_FALSE(CheckedMul(1ull << 40, 1ull << 30).has_value());
  EXPECT_EQ(CheckedMul(1ull << 31, 1ull << 31), 1ull << 62);
  EXPECT_FALSE(CheckedAdd(~0ull, 1).has_value());
  EXPECT_EQ(RoundUp(65, 64), 128);
}

TEST(Files, WriteThenReadAndLimits) {
  const auto path =
      std::filesystem::temp_directory_path() / ("thalweg_base_test" + std::to_string(::getpid()));
  ASSERT_TRUE(WriteFile(path, "hello").ok());
  EXPECT_EQ(*ReadFile(path, 100), "hello");
  EXPECT_EQ(ReadFile(path, 4).status().code(), Code::kOutOfRange);
  std::filesystem::remove(path);
  EXPECT_EQ(ReadFile(path, 100).status().code(), Code::kNotFound);
  EXPECT_FALSE(MappedFile::Open(std::filesystem::temp_directory_path()).ok());
}

TEST(Status, ContextAndNames) {
  EXPECT_EQ(InvalidArgument("bad").WithContext("file x").ToString(),
            "invalid argument: file x: bad");
  EXPECT_TRUE(Status().WithContext("x").ok());
}

}  // namespace
}  // namespace thalweg::base
