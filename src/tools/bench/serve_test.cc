// Answers are read whole from any cut of their bytes, and samples become the figures they say.
#include "tools/bench/serve.h"

#include <gtest/gtest.h>

#include "tools/bench/serve_client.h"

namespace thalweg::tools::bench {
namespace {

constexpr std::string_view kStream =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    "2f\r\ndata: {\"choices\":[{\"index\":0,\"text\":\"one\"}]}\n\n\r\n"
    "2c\r\ndata: {\"choices\":[{\"index\":0,\"text\":\"\"}]}\n\n\r\n"
    "2b\r\ndata: {\"usage\":{\"completion_tokens\":7}}\n\n\r\n"
    "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
constexpr std::string_view kWhole =
    "HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{\"completion_tokens\":5000}";

TEST(AnswerReader, AnyCutIsTheSame) {
  for (const std::string_view text : {kStream, kWhole}) {
    for (size_t cut = 1; cut < text.size(); ++cut) {
      AnswerReader reader;
      EXPECT_FALSE(reader.Push(text.substr(0, cut))) << cut;
      const int64_t before = reader.new_events();
      EXPECT_TRUE(reader.Push(text.substr(cut))) << cut;
      EXPECT_EQ(before + reader.new_events(), text == kStream ? 1 : 0);
      EXPECT_EQ(reader.tokens(), text == kStream ? 7 : 5000);
      EXPECT_EQ(reader.error(), "");
    }
  }
}

TEST(AnswerReader, TheFirstTextMayBeAStamp) {
  AnswerReader reader;
  reader.Push("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  reader.Push("20\r\ndata: {\"text\":\"1234567890123 \"}\n\n\r\n");
  reader.Push("20\r\ndata: {\"text\":\"77\"}\n\n\r\n");
  EXPECT_EQ(reader.stamp(), 1234567890123);
  EXPECT_EQ(AnswerReader().stamp(), -1);
}

TEST(AnswerReader, ErrorsAreKept) {
  AnswerReader status;
  EXPECT_TRUE(status.Push("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}"));
  EXPECT_EQ(status.error(), "429 Too Many Requests");
  AnswerReader event;
  event.Push("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n");
  event.Push("data: {\"error\":{}}\n\n\r\n");
  EXPECT_EQ(event.error(), "{\"error\":{}}");
}

TEST(BenchServe, UrlsHaveAnAddressAndAPort) {
  EXPECT_EQ(ParseTarget("http://localhost:81/")->host, "127.0.0.1");
  EXPECT_EQ(ParseTarget("http://10.0.0.1:81")->port, 81);
  for (const char* url : {"https://localhost:81", "http://localhost", "http://host:81",
                          "http://localhost:x", "http://localhost:70000"}) {
    EXPECT_FALSE(ParseTarget(url).ok()) << url;
  }
}

TEST(BenchServe, FiguresCountFromWhenARequestWasDue) {
  const std::vector<ServeSample> samples = {
      {.due = 1, .first = 1.5, .end = 2, .tokens = 10, .gaps = {0.1}, .late = {0.002}},
      {.due = 1, .end = 4, .error = "429"}};
  const auto json = ToJson(ServeFigures(samples));
  EXPECT_EQ(json["requests"], 2);
  EXPECT_EQ(json["errors"], 1);
  EXPECT_DOUBLE_EQ(json["tokens_per_s"].get<double>(), 2.5);
  EXPECT_EQ(json["events"], 2);
  EXPECT_DOUBLE_EQ(json["added_ms_p99"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(json["ttft_ms_p50"].get<double>(), 500);
  EXPECT_DOUBLE_EQ(json["e2e_ms_p99"].get<double>(), 1000);
  EXPECT_EQ(ServeErrors(samples).at("429"), 1);
  EXPECT_EQ(ServeCsv(samples),
            "due_s,ttft_ms,e2e_ms,tokens,failed\n"
            "1.000000,500.000,1000.000,10,0\n1.000000,3000.000,3000.000,0,1\n");
}

}  // namespace
}  // namespace thalweg::tools::bench
