// Property: no spelling of a number outside the bounds is accepted, and every spelling inside them
// that the header promises is. The model computes the value of a spelling in whole billionths.
#include "grammar/number_range.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "grammar/test_draws.h"

namespace thalweg::grammar {
namespace {

constexpr int64_t kOne = 1'000'000'000;
__extension__ typedef __int128 Wide;  // no number of ISO C++ holds these products

// The value times kOne of -digits.digits e exponent; the spellings of this test fit.
Wide ValueOf(std::string_view text) {
  const bool negative = text[0] == '-';
  int exponent = 0;
  const size_t e = text.find_first_of("eE");
  if (e != std::string_view::npos) {
    exponent = std::stoi(std::string(text.substr(e + 1)));
    text = text.substr(0, e);
  }
  Wide value = 0;
  bool fraction = false;
  for (const char c : text) {
    if (c == '.') fraction = true;
    if (c < '0' || c > '9') continue;
    value = value * 10 + (c - '0');
    exponent -= fraction ? 1 : 0;
  }
  for (exponent += 9; exponent > 0; --exponent) value *= 10;
  for (; exponent < 0; ++exponent) value /= 10;
  return negative ? -value : value;
}

// Every number of JSON with at most four digits, and some more; exponents as writers make them.
std::vector<std::string> Spellings() {
  std::vector<std::string> all;
  const auto add = [&](const std::string& text) {
    all.push_back(text);
    all.push_back("-" + text);
  };
  for (int whole = 0; whole < 1300; whole += whole < 130 ? 1 : 9) {
    add(std::to_string(whole));
    for (const char* fraction : {".0", ".00", ".5", ".50", ".25", ".05", ".75", ".001", ".999"}) {
      add(std::to_string(whole) + fraction);
    }
  }
  return all;
}

std::vector<std::string> Exponents() {
  std::vector<std::string> all;
  for (const char* mantissa : {"1", "2", "9", "1.0", "1.5", "2.25", "9.99", "1.234"}) {
    for (const char* exponent : {"e0", "e+1", "E2", "e+02", "e-1", "e-05", "e3", "e5"}) {
      all.push_back(std::string(mantissa) + exponent);
      all.push_back("-" + all.back());
    }
  }
  return all;
}

const char* const kBounds[] = {"0",    "1",   "-1",    "5",   "10",   "99",  "100", "0.5",
                               "-0.5", "1.5", "-12.3", "12",  "-100", "999", "1e2", "2.5e-1",
                               "0.05", "-7",  "1000",  "0.0", "-0",   "25",  "0.3", "1.25"};

struct Case {
  NumberBounds bounds;
  bool Allows(Wide value) const {
    if (bounds.integer && value % kOne != 0) return false;
    if (bounds.minimum && value < ValueOf(*bounds.minimum)) return false;
    if (bounds.exclusive_minimum && value <= ValueOf(*bounds.exclusive_minimum)) return false;
    if (bounds.maximum && value > ValueOf(*bounds.maximum)) return false;
    if (bounds.exclusive_maximum && value >= ValueOf(*bounds.exclusive_maximum)) return false;
    return !bounds.multiple_of || value % ValueOf(*bounds.multiple_of) == 0;
  }
  std::string Name() const {
    const auto part = [](const char* name, const std::optional<std::string>& value) {
      return value ? std::string(name) + *value + " " : "";
    };
    return std::string(bounds.integer ? "integer " : "") + part("min ", bounds.minimum) +
           part("over ", bounds.exclusive_minimum) + part("max ", bounds.maximum) +
           part("under ", bounds.exclusive_maximum) + part("multiple of ", bounds.multiple_of);
  }
};

Case RandomCase(uint64_t seed, const std::vector<const char*>& divisors) {
  Draws draws(seed);
  const auto bound = [&] { return std::string(kBounds[draws.Below(std::size(kBounds))]); };
  Case made;
  made.bounds.integer = draws.Below(2) == 0;
  if (draws.Below(2) == 0) made.bounds.minimum = bound();
  if (draws.Below(3) == 0) made.bounds.exclusive_minimum = bound();
  if (draws.Below(2) == 0) made.bounds.maximum = bound();
  if (draws.Below(3) == 0) made.bounds.exclusive_maximum = bound();
  if (!divisors.empty())
    made.bounds.multiple_of = divisors[draws.Below(static_cast<uint32_t>(divisors.size()))];
  return made;
}

void ExpectExact(const Case& made, const std::vector<std::string>& spellings, int* accepted) {
  RegexArena arena;
  const auto id = NumberRange(made.bounds, {}, &arena);
  ASSERT_TRUE(id.ok()) << made.Name() << id.status().ToString();
  EXPECT_EQ(arena.IsNothing(*id, 0), *id == kNothing);
  for (const std::string& text : spellings) {
    const bool want = made.Allows(ValueOf(text));
    ASSERT_EQ(arena.Matches(*id, text), want) << made.Name() << text;
    *accepted += want ? 1 : 0;
  }
}

TEST(NumberRange, BoundsAreExact) {
  const auto spellings = Spellings();
  int accepted = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    ExpectExact(RandomCase(seed, {}), spellings, &accepted);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 50000);
}

TEST(NumberRange, DivisorsAreExact) {
  const auto spellings = Spellings();
  int accepted = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ExpectExact(RandomCase(seed, {"1", "2", "3", "7", "12", "10", "100", "500", "2500", "0.5",
                                  "0.25", "0.01", "1.5", "0.1", "3e1"}),
                spellings, &accepted);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 3000);
}

TEST(NumberRange, ExponentsAreAcceptedOnlyInsideTheBounds) {
  const auto spellings = Exponents();
  int accepted = 0;
  int refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Case made = RandomCase(seed, {});
    RegexArena arena;
    const auto id = NumberRange(made.bounds, {}, &arena);
    ASSERT_TRUE(id.ok());
    for (const std::string& text : spellings) {
      const bool want = made.Allows(ValueOf(text));
      const bool got = arena.Matches(*id, text);
      ASSERT_LE(got, want) << made.Name() << text;
      if (!made.bounds.integer) {
        ASSERT_EQ(got, want) << made.Name() << text;
      }
      accepted += got ? 1 : 0;
      refused += want && !got ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 5000);
  EXPECT_LT(refused, accepted);
}

bool Allowed(const NumberBounds& bounds, std::string_view text) {
  RegexArena arena;
  const auto id = NumberRange(bounds, {}, &arena);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return id.ok() && arena.Matches(*id, text);
}

TEST(NumberRange, WhatPythonPrintsIsAccepted) {
  for (const char* text : {"1e-07", "1e+16", "5e-324", "1.7976931348623157e+307", "0.1", "-0.0",
                           "1.5e-05", "123456789012345678901234567890"}) {
    EXPECT_TRUE(Allowed({}, text)) << text;
    EXPECT_TRUE(Allowed({.minimum = "-1"}, text)) << text;
  }
  EXPECT_TRUE(Allowed({.integer = true}, "1e+16"));
  EXPECT_TRUE(Allowed({.integer = true}, "1.2345678901234567e+22"));
  EXPECT_TRUE(Allowed({.integer = true}, "1.0"));
  EXPECT_TRUE(Allowed({.integer = true}, "-0"));
  EXPECT_FALSE(Allowed({.integer = true}, "1.5"));
  EXPECT_FALSE(Allowed({.integer = true}, "1e-1"));
  EXPECT_FALSE(Allowed({.integer = true}, "1.25e1"));
  EXPECT_FALSE(Allowed({.minimum = "0"}, "-1e-07"));
  EXPECT_TRUE(Allowed({.minimum = "5e-324"}, "5e-324"));
  EXPECT_FALSE(Allowed({.minimum = "5e-324"}, "4e-324"));
  EXPECT_TRUE(Allowed({.maximum = "1e300"}, "1e300"));
  EXPECT_FALSE(Allowed({.maximum = "1e300"}, "1.1e300"));
}

TEST(NumberRange, OnlyNumbersOfJsonAreAccepted) {
  for (const char* text : {"", "-", "01", "+1", "1.", ".5", "1e", "--1", "1.5.5", "0x1", "1 ",
                           "NaN", "1e5.0", "-01", "00"}) {
    EXPECT_FALSE(Allowed({}, text)) << text;
    EXPECT_FALSE(Allowed({.integer = true}, text)) << text;
    EXPECT_FALSE(Allowed({.minimum = "-5", .multiple_of = "0.5"}, text)) << text;
  }
}

TEST(NumberRange, AnEmptyRangeIsNothing) {
  RegexArena arena;
  EXPECT_EQ(*NumberRange({.minimum = "5", .maximum = "4"}, {}, &arena), kNothing);
  EXPECT_EQ(*NumberRange({.minimum = "5", .exclusive_maximum = "5"}, {}, &arena), kNothing);
  const NumberBounds none = {.integer = true, .minimum = "1.2", .maximum = "1.8"};
  EXPECT_EQ(*NumberRange(none, {}, &arena), kNothing);
}

TEST(NumberRange, BadBoundsAreErrors) {
  RegexArena arena;
  const auto code = [&](const NumberBounds& bounds) {
    return NumberRange(bounds, {}, &arena).status().code();
  };
  EXPECT_EQ(code({.minimum = "x"}), base::Code::kInvalidArgument);
  EXPECT_EQ(code({.multiple_of = "0"}), base::Code::kInvalidArgument);
  EXPECT_EQ(code({.multiple_of = "-1"}), base::Code::kInvalidArgument);
  EXPECT_EQ(code({.multiple_of = "0.123456789"}), base::Code::kUnsupported);
  EXPECT_EQ(code({.maximum = "1e999999"}), base::Code::kUnsupported);
}

}  // namespace
}  // namespace thalweg::grammar
