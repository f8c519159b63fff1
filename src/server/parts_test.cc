// The parts of the server that need no socket: events and JSON text are escaped as their standards
// say, errors have the shape of their protocol, keys and limits do what the file says, metrics are
// Prometheus text.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"
#include "server/access_log.h"
#include "server/admission.h"
#include "server/errors.h"
#include "server/fields.h"
#include "server/http.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/sse.h"
#include "server/structure.h"

namespace thalweg::server {
namespace {

TEST(Sse, EveryByteOfAJsonStringComesBack) {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  all += "é😀";
  std::string text;
  AppendJsonString(all, &text);
  EXPECT_EQ(Json::parse(text).get<std::string>(), all);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(Sse, EventsEndWithABlankLine) {
  std::string out;
  AppendEvent("{}", &out);
  AppendNamedEvent("ping", "{}", &out);
  EXPECT_EQ(out, "data: {}\n\nevent: ping\ndata: {}\n\n");
}

TEST(Http, ChunksHaveTheirLengthInHexadecimal) {
  std::string out;
  AppendChunk("", &out);
  EXPECT_EQ(out, "");  // would be the end of the body
  AppendChunk(std::string(26, 'x'), &out);
  EXPECT_EQ(out, "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(Http, HeadsSayHowLongTheBodyIs) {
  const std::string whole = ResponseHead({.status = 404}, 12, true);
  EXPECT_NE(whole.find("HTTP/1.1 404 Not Found\r\n"), std::string::npos);
  EXPECT_NE(whole.find("Content-Length: 12\r\n"), std::string::npos);
  const std::string stream = ResponseHead({}, -1, false);
  EXPECT_NE(stream.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(stream.find("Content-Length"), std::string::npos);
  EXPECT_NE(stream.find("Connection: close\r\n\r\n"), std::string::npos);
}

TEST(Errors, ShapesAreThoseOfTheirProtocols) {
  const ApiError error{.status = 400, .message = "no", .param = "n"};
  EXPECT_EQ(ErrorBody(error, Dialect::kOpenAi),
            R"({"error":{"message":"no","type":"invalid_request_error","param":"n",)"
            R"("code":"invalid_request_error"}})");
  EXPECT_EQ(ErrorBody(error, Dialect::kAnthropic),
            R"({"type":"error","error":{"type":"invalid_request_error","message":"no"}})");
}

TEST(Errors, CodesBecomeStatuses) {
  EXPECT_EQ(ToApiError(Error{ErrorCode::kInvalidArgument, ""}).status, 400);
  EXPECT_EQ(ToApiError(Error{ErrorCode::kOutOfRange, ""}).code, "context_length_exceeded");
  EXPECT_EQ(ToApiError(Error{ErrorCode::kInternal, ""}).status, 500);
  EXPECT_EQ(ToApiError(base::InvalidArgument("messages[3].role: is wrong")).param,
            "messages[3].role");
  EXPECT_EQ(ToApiError(base::InvalidArgument("The text: is wrong")).param, "");
}

TEST(Errors, BusyServersSayWhenToComeBack) {
  const HttpResponse busy = ErrorResponse(OverloadedError("busy"), Dialect::kOpenAi);
  ASSERT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers.front().first, "Retry-After");
  EXPECT_EQ(ErrorResponse({.status = 503}, Dialect::kAnthropic).status, 529);
}

TEST(Keys, LinesHaveAKeyAndWhatItMay) {
  const auto keys = ParseKeys("# people\nabc name=ann requests=2\n\n  def rate=60\r\nghi\n",
                              {.requests = 7, .rate = 0});
  ASSERT_TRUE(keys.ok()) << keys.status().ToString();
  ASSERT_EQ(keys->size(), 3u);
  EXPECT_EQ((*keys)[0].name, "ann");
  EXPECT_EQ((*keys)[0].limits.requests, 2);
  EXPECT_EQ((*keys)[1].name, "key-4");
  EXPECT_EQ((*keys)[1].limits.rate, 60);
  EXPECT_EQ((*keys)[2].limits.requests, 7);
  EXPECT_EQ((*keys)[2].digest, base::Sha256Of("ghi"));
}

TEST(Keys, WrongLinesAreNamed) {
  const auto keys = ParseKeys("abc\ndef requests=many\n", {});
  ASSERT_FALSE(keys.ok());
  EXPECT_NE(keys.status().message().find("line 2"), std::string::npos);
  EXPECT_FALSE(ParseKeys("abc colour=red", {}).ok());
}

TEST(Keys, HeadersOfBothProtocolsCarryOne) {
  EXPECT_EQ(KeyOf("Bearer abc", ""), "abc");
  EXPECT_EQ(KeyOf("bearer  abc ", ""), "abc");
  EXPECT_EQ(KeyOf("", "abc"), "abc");
  EXPECT_EQ(KeyOf("Basic abc", ""), "");
  EXPECT_EQ(KeyOf("Bearer ", ""), "");
}

TEST(Keys, AFileThatChangedIsReadAgain) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "thalweg_keys_test.txt";
  ASSERT_TRUE(base::WriteFile(path, "one\n").ok());
  const auto file = KeyFile::Open(path, {});
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_TRUE((*file)->Find("one").has_value());
  EXPECT_FALSE((*file)->Find("on").has_value());
  EXPECT_FALSE((*file)->Find("").has_value());
  ASSERT_TRUE(base::WriteFile(path, "second\n").ok());
  ASSERT_TRUE((*file)->Refresh().ok());
  EXPECT_FALSE((*file)->Find("one").has_value());
  EXPECT_TRUE((*file)->Find("second").has_value());
  ASSERT_TRUE(base::WriteFile(path, "third broken=yes\n").ok());
  EXPECT_FALSE((*file)->Refresh().ok());
  EXPECT_TRUE((*file)->Find("second").has_value());  // the keys of before stay
  std::filesystem::remove(path);
}

bool Admits(Admission* admission, const std::string& caller, const KeyLimits& limits,
            Admission::Clock::time_point now) {
  return std::holds_alternative<Admission::Ticket>(admission->Enter(caller, limits, now));
}

TEST(Admission, PlacesComeBackWithTheirTickets) {
  Admission admission(2);
  const auto now = Admission::Clock::now();
  {
    const auto first = admission.Enter("a", {}, now);
    const auto second = admission.Enter("b", {}, now);
    EXPECT_FALSE(Admits(&admission, "c", {}, now));
    EXPECT_EQ(admission.under_way(), 2);
  }
  EXPECT_EQ(admission.under_way(), 0);
  EXPECT_TRUE(Admits(&admission, "c", {}, now));
}

TEST(Admission, OneKeyCannotTakeAllPlaces) {
  Admission admission(10);
  const auto now = Admission::Clock::now();
  const auto first = admission.Enter("a", {.requests = 1}, now);
  EXPECT_FALSE(Admits(&admission, "a", {.requests = 1}, now));
  EXPECT_TRUE(Admits(&admission, "b", {.requests = 1}, now));
}

TEST(Admission, RatesFillUpEvenly) {
  Admission admission(1000);
  const auto start = Admission::Clock::now();
  int admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += Admits(&admission, "a", {.rate = 60}, start) ? 1 : 0;
  EXPECT_EQ(admitted, 60);
  EXPECT_FALSE(Admits(&admission, "a", {.rate = 60}, start + std::chrono::milliseconds(900)));
  EXPECT_TRUE(Admits(&admission, "a", {.rate = 60}, start + std::chrono::milliseconds(1900)));
}

TEST(Fields, NullIsAsIfLeftOut) {
  const Json body = Json::parse(R"({"temperature": null, "stream": null, "stop": null})");
  SamplingParams params;
  EXPECT_TRUE(ReadSampling(body, &params).ok());
  EXPECT_FALSE(ReadStream(body)->stream);
  EXPECT_TRUE(ReadStops(body, "stop")->empty());
}

TEST(Fields, WrongTypesAndRangesAreErrors) {
  SamplingParams params;
  for (const char* text :
       {R"({"temperature": "1"})", R"({"temperature": 2.5})", R"({"top_p": 1.5})",
        R"({"presence_penalty": 3})", R"({"n": 0})", R"({"seed": -1})", R"({"logit_bias": []})"}) {
    EXPECT_FALSE(ReadSampling(Json::parse(text), &params).ok()) << text;
  }
  EXPECT_FALSE(ReadStream(Json::parse(R"({"stream_options": {}})")).ok());
  EXPECT_FALSE(ReadStops(Json{{"stop", std::vector<std::string>(17, "x")}}, "stop").ok());
  EXPECT_FALSE(ReadStops(Json{{"stop", ""}}, "stop").ok());
}

TEST(Fields, OneWayOfAskingForStructureAtMost) {
  const Json regex = Json::parse(R"({"regex": "[ab]"})");
  EXPECT_EQ(ReadStructure(regex)->args, R"({"type":"regex","content":"[ab]"})");
  const Json both = Json::parse(R"({"regex": "a", "response_format": {"type": "json_object"}})");
  EXPECT_FALSE(ReadStructure(both).ok());
  const Json text = Json::parse(R"({"regex": "a", "response_format": {"type": "text"}})");
  EXPECT_TRUE(ReadStructure(text).ok());
}

// R54: a body that is nested deeply is an error and no overflow of the stack.
TEST(Fields, R54NestingHasALimit) {
  const auto nested = [](int depth) {
    std::string body = "{\"a\":";
    for (int i = 0; i < depth; ++i) body += "[";
    for (int i = 0; i < depth; ++i) body += "]";
    return ParseBody({.body = body + "}"}).ok();
  };
  EXPECT_TRUE(nested(127));
  EXPECT_FALSE(nested(200));
  EXPECT_FALSE(nested(1'000'000));
}

TEST(Log, BodiesAreInItOnlyWhenTheyAreThere) {
  RequestRecord record{.id = "x", .method = "POST", .path = "/p", .status = 200};
  record.usage.prompt = 3;
  EXPECT_EQ(Json::parse(RecordLine(record))["prompt_tokens"], 3);
  EXPECT_FALSE(Json::parse(RecordLine(record)).contains("body"));
  record.body = "secret \xff";
  EXPECT_TRUE(Json::parse(RecordLine(record)).contains("body"));
}

TEST(Metrics, HistogramsAreCumulative) {
  Metrics metrics("a\"b");
  metrics.OnTokens({.submitted_at = 1, .first_token_at = 1.03}, 1, -1);
  metrics.OnFinish("stop");
  metrics.OnFinish("cancelled");
  const std::string text = metrics.Text(R"({"prompt_tokens": 5, "scheduler": {"running": 2}})", 3);
  const std::string label = R"(model_name="a\"b",engine="0")";
  EXPECT_NE(text.find("vllm:num_requests_running{" + label + "} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("vllm:prompt_tokens_total{" + label + "} 5\n"), std::string::npos);
  const std::string bucket = "vllm:time_to_first_token_seconds_bucket{" + label;
  EXPECT_NE(text.find(bucket + R"(,le="0.02"} 0)"), std::string::npos);
  EXPECT_NE(text.find(bucket + R"(,le="0.04"} 1)"), std::string::npos);
  EXPECT_NE(text.find(bucket + R"(,le="+Inf"} 1)"), std::string::npos);
  EXPECT_NE(text.find(R"(finished_reason="abort"} 1)"), std::string::npos);
  EXPECT_NE(text.find("thalweg_http_requests_under_way 3\n"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::server
