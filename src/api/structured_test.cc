// Structured output under the names of peers means what so_args say; what is
// not understood is an error, never ignored.
#include "api/structured.h"

#include <gtest/gtest.h>
#include <thalweg/sampling_params.h>

namespace thalweg::api {
namespace {

Json Parsed(const std::string& text) { return base::ParseJson(text, "test").value(); }

Json SoArgsOf(const std::string& params) {
  const auto p = SamplingParams::FromJson(params);
  if (!p.ok()) return p.error().message;
  return p->so_args.empty() ? Json() : Parsed(p->so_args);
}

TEST(Structured, SoArgsAreTakenAsTheyAre) {
  const std::string args = R"({"type":"json_schema","content":{"z":1,"a":2}})";
  EXPECT_EQ(SoArgsOf(R"({"so_args": )" + args + "}").dump(),
            args);                                                   // keys in their order
  EXPECT_EQ(SoArgsOf(Json{{"so_args", args}}.dump()).dump(), args);  // as text
  EXPECT_TRUE(SoArgsOf(R"({"so_args": null})").is_null());
}

TEST(Structured, ResponseFormat) {
  EXPECT_TRUE(SoArgsOf(R"({"response_format": {"type": "text"}})").is_null());
  EXPECT_EQ(SoArgsOf(R"({"response_format": {"type": "json_object"}})"),
            Parsed(R"({"type": "json_object"})"));
  EXPECT_EQ(SoArgsOf(R"({"response_format": {"type": "json_schema", "json_schema":
                         {"name": "n", "strict": true, "schema": {"type": "string"}}}})"),
            Parsed(R"({"type": "json_schema", "content": {"type": "string"}, "strict": true})"));
}

TEST(Structured, StructuredOutputs) {
  const auto of = [](const std::string& json) {
    return SoArgsOf(R"({"structured_outputs": )" + json + "}");
  };
  EXPECT_EQ(of(R"({"json": {"type": "null"}})"),
            Parsed(R"({"type": "json_schema", "content": {"type": "null"}})"));
  EXPECT_EQ(of(R"({"regex": "a+"})"), Parsed(R"({"type": "regex", "content": "a+"})"));
  EXPECT_EQ(of(R"({"grammar": "root ::= \"a\""})"),
            Parsed(R"({"type": "ebnf", "content": "root ::= \"a\""})"));
  EXPECT_EQ(of(R"({"choice": ["a.b", "c|d"]})"),
            Parsed(R"({"type": "regex", "content": "a\\.b|c\\|d"})"));
  EXPECT_EQ(of(R"({"json_object": true})"), Parsed(R"({"type": "json_object"})"));
}

TEST(Structured, WhatIsNotUnderstoodIsAnError) {
  for (const auto& [params, part] : std::vector<std::pair<std::string, std::string>>{
           {R"({"so_args": 1})", "so_args is 1"},
           {R"({"so_args": ""})", "so_args"},
           {R"({"response_format": {"type": "xml"}})", "response_format"},
           {R"({"response_format": {"type": "json_schema"}})", "response_format"},
           {R"({"response_format": {"type": "json_schema", "json_schema": {"shema": {}}}})",
            "unknown member \"shema\""},
           {R"({"structured_outputs": {}})", "one of json, regex"},
           {R"({"structured_outputs": {"json": {}, "regex": "a"}})", "one of json, regex"},
           {R"({"structured_outputs": {"structural_tag": "x"}})", "structural_tag"},
           {R"({"structured_outputs": {"choice": []}})", "no choices"}}) {
    const auto p = SamplingParams::FromJson(params);
    ASSERT_FALSE(p.ok()) << params;
    EXPECT_NE(p.error().message.find(part), std::string::npos) << p.error().message;
  }
}

}  // namespace
}  // namespace thalweg::api
