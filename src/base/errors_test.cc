// Errors travel as values with their code and context, and programmer errors stop the program with
// both values in the message.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "base/env.h"
#include "base/log.h"
#include "base/math.h"
#include "base/status.h"

namespace thalweg::base {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument(fmt::format("{} is odd", x));
  return x / 2;
}

Result<int> Quarter(int x) {
  TW_ASSIGN(const int half, Half(x));
  return Half(half);
}

Status CheckQuarter(int x) {
  TW_TRY(Quarter(x).status());
  return {};
}

TEST(Errors, TravelThroughAssignAndTry) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(CheckQuarter(5).code(), Code::kInvalidArgument);
  EXPECT_TRUE(CheckQuarter(8).ok());
}

TEST(Errors, ResultsCarryValuesThatOnlyMove) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Errors, EveryCodeHasItsOwnName) {
  const Status all[] = {InvalidArgument("x"), NotFound("x"),    FailedPrecondition("x"),
                        OutOfRange("x"),      Unsupported("x"), ResourceExhausted("x"),
                        IoError("x"),         Internal("x"),    Status()};
  for (const Status& a : all) {
    EXPECT_NE(CodeName(a.code()), "unknown");
    for (const Status& b : all) {
      EXPECT_EQ(&a == &b, CodeName(a.code()) == CodeName(b.code()));
    }
  }
}

TEST(ErrorsDeathTest, ValueOfAnErrorStopsWithItsMessage) {
  const Result<int> result = Half(3);
  EXPECT_DEATH(static_cast<void>(result.value()), "3 is odd");
}

TEST(ErrorsDeathTest, AnOkStatusIsNoError) {
  EXPECT_DEATH(static_cast<void>(Result<int>(Status())), "check failed");
}

TEST(ErrorsDeathTest, ChecksPrintBothValuesAndThePlace) {
  const int rows = 3;
  EXPECT_DEATH(TW_CHECK_EQ(rows, 4), "errors_test.cc.*rows == 4: 3 against 4");
  EXPECT_DEATH(TW_CHECK(rows < 0), "rows < 0");
}

TEST(Checks, EvaluateTheirOperandsOnce) {
  int calls = 0;
  const auto next = [&] { return ++calls; };
  TW_CHECK_LE(next(), 1);
  EXPECT_EQ(calls, 1);
}

TEST(Environment, UnsetAndEmptyAreNothing) {
  ASSERT_EQ(setenv("THALWEG_TEST_VARIABLE", "a value", 1), 0);
  EXPECT_EQ(ReadEnvironment("THALWEG_TEST_VARIABLE"), "a value");
  ASSERT_EQ(setenv("THALWEG_TEST_VARIABLE", "", 1), 0);
  EXPECT_EQ(ReadEnvironment("THALWEG_TEST_VARIABLE"), std::nullopt);
  ASSERT_EQ(unsetenv("THALWEG_TEST_VARIABLE"), 0);
  EXPECT_EQ(ReadEnvironment("THALWEG_TEST_VARIABLE"), std::nullopt);
}

TEST(Log, UnknownLevelsAreRefusedWithTheKnownOnes) {
  const Status status = SetUpLog("loud");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("debug"), std::string::npos);
  for (const char* level : {"debug", "info", "warn", "error", "off"}) {
    EXPECT_TRUE(SetUpLog(level).ok()) << level;
  }
}

TEST(Math, RoundingAtTheEdges) {
  EXPECT_EQ(CeilDiv(0, 4), 0);
  EXPECT_EQ(CeilDiv(1, 4), 1);
  EXPECT_EQ(CeilDiv(4, 4), 1);
  EXPECT_EQ(RoundUp(0, 4), 0);
  EXPECT_EQ(CheckedMul(~0ull, 1), ~0ull);
  EXPECT_EQ(CheckedMul(~0ull, 0), 0u);
  EXPECT_EQ(CheckedAdd(~0ull, 0), ~0ull);
}

}  // namespace
}  // namespace thalweg::base
