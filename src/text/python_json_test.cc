// JSON is written as Python's json.dumps(value, ensure_ascii=False) writes it. Expected texts are
// what Python 3.11 printed.
#include "text/python_json.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "base/rng.h"

namespace thalweg::text {
namespace {

std::string Rewritten(std::string_view json) {
  return PythonJson(base::ParseJson(json, "json").value());
}

TEST(PythonJson, Floats) {
  const std::pair<const char*, const char*> cases[] = {
      {"1.5e-7", "1.5e-07"},
      {"1e-5", "1e-05"},
      {"0.0001", "0.0001"},
      {"0.00012345", "0.00012345"},
      {"1e16", "1e+16"},
      {"1e15", "1000000000000000.0"},
      {"123456789012345678.0", "1.2345678901234568e+17"},
      {"-0.0", "-0.0"},
      {"0.0", "0.0"},
      {"1.0", "1.0"},
      {"-2.50", "-2.5"},
      {"3.14", "3.14"},
      {"100.0", "100.0"},
      {"1234.5", "1234.5"},
      {"1e300", "1e+300"},
      {"1e100", "1e+100"},
      {"5e-324", "5e-324"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"0.1", "0.1"},
      {"0.30000000000000004", "0.30000000000000004"},
      {"9007199254740993.0", "9007199254740992.0"},
      {"9999999999999998.0", "9999999999999998.0"},
      {"2.5E+3", "2500.0"},
      {"1e-4", "0.0001"},
      {"9.5e-5", "9.5e-05"}};
  for (const auto& [json, expected] : cases) EXPECT_EQ(Rewritten(json), expected) << json;
}

TEST(PythonJson, EveryFloatReadsBack) {
  const base::PhiloxKey key = base::PhiloxKeyOf(5);
  for (uint32_t i = 0; i < 20'000; ++i) {
    const auto drawn = base::Philox4x32({i, 0, 0, 0}, key);
    const uint64_t bits = static_cast<uint64_t>(drawn[0]) << 32 | drawn[1];
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    const std::string text = PythonFloat(value);
    double back = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), back);
    EXPECT_EQ(error, std::errc());
    EXPECT_EQ(end, text.data() + text.size());
    EXPECT_EQ(back, value) << text;
    EXPECT_NE(text.find_first_of(".e"), std::string::npos);
  }
}

TEST(PythonJson, OtherValues) {
  EXPECT_EQ(Rewritten(R"({"b":1,"a":[true,false,null,{}],"c":[]})"),
            R"({"b": 1, "a": [true, false, null, {}], "c": []})");
  EXPECT_EQ(Rewritten(R"([1,-2,18446744073709551615,-9223372036854775808])"),
            "[1, -2, 18446744073709551615, -9223372036854775808]");
  EXPECT_EQ(Rewritten(R"(["\u4e2d\ud83d\ude00/\/","\"\\\n\r\t\b\f\u0001\u001f\u007f"])"),
            "[\"中😀//\", \"\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\"]");
  EXPECT_EQ(PythonJson(base::Json("\xff")), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace thalweg::text
