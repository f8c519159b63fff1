// Arguments that fit the schema of their tool pass whatever the order of their members and the
// space between them; others are refused and the place is named.
#include "api/argument_check.h"

#include <gtest/gtest.h>

namespace thalweg::api {
namespace {

using base::Json;

const Json& Weather() {
  static const Json schema = Json::parse(R"({
    "type": "object",
    "properties": {"location": {"type": "string"}, "days": {"type": "integer", "minimum": 1},
                   "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["location"], "additionalProperties": false})");
  return schema;
}

Status Check(const Json& schema, std::string_view arguments) {
  return ArgumentCheck::Create(schema).value().Check(arguments);
}

TEST(ArgumentCheck, WhatFitsPassesInAnyOrderAndSpacing) {
  for (const char* good : {R"({"location": "Paris"})", R"({"days": 3, "location": "Paris"})",
                           "{ \"unit\" :\n\"celsius\",\t\"location\":\"\\u5317\" ,\"days\": 12 }",
                           R"({"location": "<｜DSML｜ \"quoted\""})"}) {
    EXPECT_TRUE(Check(Weather(), good).ok()) << good << Check(Weather(), good).message();
  }
}

TEST(ArgumentCheck, WhatDoesNotFitIsRefused) {
  for (const char* bad :
       {"{}", R"({"location": 5})", R"({"location": "Paris", "days": 0})",
        R"({"location": "Paris", "days": "3"})", R"({"location": "Paris", "unit": "kelvin"})",
        R"({"location": "Paris", "more": 1})", R"(["Paris"])", R"("Paris")", "",
        R"({"location": "Paris")"}) {
    EXPECT_EQ(Check(Weather(), bad).code(), base::Code::kInvalidArgument) << bad;
  }
}

TEST(ArgumentCheck, TheErrorNamesThePlace) {
  const Status status = Check(Weather(), R"({"location": "Paris", "days": true})");
  EXPECT_NE(status.message().find("byte 27"), std::string::npos) << status.message();
}

TEST(ArgumentCheck, ASchemaThatCannotBeCheckedIsAnError) {
  EXPECT_FALSE(ArgumentCheck::Create(Json::parse(R"({"type": "nothing-known"})")).ok());
}

}  // namespace
}  // namespace thalweg::api
