// What happens on the wire: requests in pieces and in rows, clients that leave, stall or send too
// much, keys, limits, and the end of the server. Nothing of it leaves a request under way.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/mapped_file.h"
#include "server/test_server.h"

namespace thalweg::server {
namespace {

constexpr std::string_view kScript = R"({
  "answers": [
    {"match": "slow", "pieces": ["word "], "delay_ms": 20, "times": 4000},
    {"match": "silent", "pieces": [{"text": "late", "delay_ms": 700}]},
    {"match": "flood", "pieces": ["word word word word word word word word "], )"
                                     R"("by": "piece", "times": 1000000},
    {"pieces": ["Hello"]}
  ]})";

std::string Completion(const std::string& prompt, bool stream = false) {
  return Json{{"prompt", prompt}, {"stream", stream}, {"max_tokens", 5000}}.dump();
}

std::string HealthText() { return "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"; }

int64_t MonotonicMicroseconds() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TEST(Script, AnswersMayBeginWithTheTimeTheyWereAskedFor) {
  TestServer server(R"({"answers": [
    {"stamped": true, "pieces": ["a", "b"], "delay_ms": 1, "times": 2, "by": "piece"}]})");
  const int64_t before = MonotonicMicroseconds();
  std::string text;
  for (const TestEvent& event :
       server.Stream("/v1/completions", {{"prompt", "x"}, {"max_tokens", 64}})) {
    if (event.data == "[DONE]") break;
    const Json choices = event.json()["choices"];
    if (!choices.empty()) text += choices[0]["text"].get<std::string>();
  }
  const size_t space = text.find(' ');
  ASSERT_NE(space, std::string::npos) << text;
  EXPECT_EQ(text.substr(space), " abab");
  const int64_t stamp = std::stoll(text.substr(0, space));
  EXPECT_GE(stamp, before);
  EXPECT_LE(stamp, MonotonicMicroseconds());
}

// Longer silence than a reader may take is no fault of the reader.
TEST(Connection, SilentStreamsDoNotStall) {
  ServerOptions options = TestServer::Options();
  options.limits.stall = std::chrono::milliseconds(300);
  TestServer server(kScript, options);
  for (int i = 0; i < 3; ++i) {
    const auto events = server.Stream("/v1/completions", {{"prompt", "silent"}});
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.back().data, "[DONE]");
  }
}

TEST(Connection, RequestsMayComeByteByByte) {
  TestServer server(kScript);
  RawClient client(server.port());
  for (const char c : RequestText("/v1/completions", Completion("x")))
    client.Send(std::string_view(&c, 1));
  EXPECT_NE(client.ReadUntil("\"usage\"").find("Hello"), std::string::npos);
}

TEST(Connection, RequestsInARowAreAnsweredInOrder) {
  TestServer server(kScript);
  RawClient client(server.port());
  client.Send(RequestText("/v1/completions", Completion("x")) + HealthText() + HealthText());
  const std::string all = client.ReadUntil("\"ok\"");
  EXPECT_LT(all.find("Hello"), all.find("\"status\":\"ok\""));
  client.Send(HealthText());
  EXPECT_NE(client.ReadUntil("\"ok\"").find("200 OK"), std::string::npos);
}

TEST(Connection, ClosesWhenTheClientWantsIt) {
  TestServer server(kScript);
  RawClient client(server.port());
  client.Send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.ReadUntil("\"ok\"").find("Connection: close"), std::string::npos);
  EXPECT_TRUE(client.ClosedWithin(std::chrono::seconds(5)));
}

TEST(Connection, ContinuesWhenAskedTo) {
  TestServer server(kScript);
  RawClient client(server.port());
  const std::string body = Completion("x");
  const std::string all = RequestText("/v1/completions", body, "Expect: 100-continue\r\n");
  client.Send(all.substr(0, all.size() - body.size()));
  EXPECT_NE(client.ReadUntil("\r\n\r\n").find("100 Continue"), std::string::npos);
  client.Send(body);
  EXPECT_NE(client.ReadUntil("\"usage\"").find("Hello"), std::string::npos);
}

TEST(Connection, WhatIsNoHttpIsRefused) {
  TestServer server(kScript);
  for (const char* text : {"\r\nhello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x00",
                           "POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n"}) {
    RawClient client(server.port());
    client.Send(text);
    client.Send("\r\n\r\n");
    EXPECT_NE(client.ReadUntil("invalid_request_error").find("400"), std::string::npos) << text;
    EXPECT_TRUE(client.ClosedWithin(std::chrono::seconds(5)));
  }
  EXPECT_EQ(server.Get("/health").status, 200);
}

TEST(Connection, BodiesAndHeadersHaveLimits) {
  ServerOptions options = TestServer::Options();
  options.limits.body_bytes = 1000;
  TestServer server(kScript, options);
  RawClient body(server.port());
  body.Send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_NE(body.ReadUntil("max-body-bytes").find("413 "), std::string::npos);
  RawClient chunks(server.port());
  chunks.Send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) chunks.Send("1f4\r\n" + std::string(500, ' ') + "\r\n");
  EXPECT_NE(chunks.ReadUntil("max-body-bytes").find("413 "), std::string::npos);
  RawClient headers(server.port());
  headers.Send("GET /health HTTP/1.1\r\nA: " + std::string(40000, 'a') + "\r\n\r\n");
  EXPECT_NE(headers.ReadUntil("32768").find("431 "), std::string::npos);
}

// R55: a client that leaves while its whole answer is awaited.
TEST(Connection, R55LeavingEndsARequestThatDoesNotStream) {
  TestServer server(kScript);
  RawClient client(server.port());
  client.Send(RequestText("/v1/completions", Completion("slow")));
  ASSERT_TRUE(server.WaitFor("requests", 1));
  client.Close();
  EXPECT_TRUE(server.WaitFor("cancelled", 1));
  EXPECT_TRUE(server.WaitIdle());
  EXPECT_NE(server.Get("/metrics").body.find("thalweg_aborts_total{cause=\"disconnect\"} 1"),
            std::string::npos);
}

// R57: the same for streams, for several sequences, and for many at once.
TEST(Connection, R57LeavingEndsStreamsOfSeveralSequences) {
  TestServer server(kScript);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    Json body = Json::parse(Completion("slow", true));
    body["n"] = 3;
    clients.back()->Send(RequestText("/v1/completions", body.dump()));
  }
  ASSERT_TRUE(server.WaitFor("requests", 20));
  EXPECT_NE(clients.front()->ReadUntil("word").find("200 OK"), std::string::npos);
  clients.clear();
  EXPECT_TRUE(server.WaitFor("cancelled", 20));
  EXPECT_TRUE(server.WaitIdle());
}

// R52: a stream is never silent for long.
TEST(Connection, R52CommentsKeepSilentStreamsAlive) {
  ServerOptions options = TestServer::Options();
  options.limits.keep_alive = std::chrono::milliseconds(150);
  TestServer server(kScript, options);
  RawClient client(server.port());
  client.Send(RequestText("/v1/completions", Completion("silent", true)));
  const std::string all = client.ReadUntil("[DONE]");
  EXPECT_LT(all.find(": keep-alive"), all.find("late"));
}

TEST(Connection, ReadersThatStallAreCutOff) {
  ServerOptions options = TestServer::Options();
  options.limits.stall = std::chrono::milliseconds(300);
  options.limits.backlog_bytes = 64u << 20;
  TestServer server(kScript, options);
  RawClient client(server.port());
  client.ShrinkReceiveBuffer(4096);
  client.Send(RequestText("/v1/completions", Completion("flood", true)));
  EXPECT_TRUE(server.WaitFor("requests", 1));
  EXPECT_TRUE(server.WaitIdle());
  EXPECT_EQ(server.Get("/health").status, 200);
}

TEST(Connection, BacklogsOfSlowReadersAreBounded) {
  ServerOptions options = TestServer::Options();
  options.limits.backlog_bytes = 100'000;
  TestServer server(kScript, options);
  RawClient client(server.port());
  client.ShrinkReceiveBuffer(4096);
  client.Send(RequestText("/v1/completions", Completion("flood", true)));
  EXPECT_TRUE(server.WaitFor("requests", 1));
  EXPECT_TRUE(server.WaitIdle());
}

TEST(Connection, TheLastIncrementMayBeTooMuchForAReader) {
  ServerOptions options = TestServer::Options();
  options.limits.backlog_bytes = 2000;
  const Json piece = {{"text", std::string(4000, 'x')}, {"delay_ms", 20}};
  const Json answer = {{"by", "piece"}, {"pieces", Json::array({piece})}};
  TestServer server(Json{{"answers", Json::array({answer})}}.dump(), options);
  RawClient client(server.port());
  client.Send(RequestText("/v1/completions", Completion("x", true)));
  EXPECT_TRUE(client.ClosedWithin(std::chrono::seconds(5)));
  EXPECT_EQ(server.Get("/health").status, 200);
  EXPECT_TRUE(server.WaitIdle());
}

TEST(Connection, IdleOnesAndHalfRequestsAreClosed) {
  ServerOptions options = TestServer::Options();
  options.limits.idle = std::chrono::milliseconds(200);
  options.limits.header_time = std::chrono::milliseconds(200);
  options.limits.body_time = std::chrono::milliseconds(200);
  TestServer server(kScript, options);
  RawClient idle(server.port());
  RawClient header(server.port());
  header.Send("GET /health HT");
  RawClient body(server.port());
  body.Send("POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_TRUE(idle.ClosedWithin(std::chrono::seconds(5)));
  EXPECT_TRUE(header.ClosedWithin(std::chrono::seconds(5)));
  EXPECT_TRUE(body.ClosedWithin(std::chrono::seconds(5)));
}

TEST(Connection, AFullServerSaysWhenToComeBack) {
  ServerOptions options = TestServer::Options();
  options.limits.requests = 1;
  TestServer server(kScript, options);
  RawClient first(server.port());
  first.Send(RequestText("/v1/completions", Completion("slow", true)));
  ASSERT_NE(first.ReadUntil("word").find("200 OK"), std::string::npos);
  const TestAnswer second = server.PostText("/v1/completions", Completion("x"));
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.headers.at("retry-after"), "1");
  EXPECT_EQ(server.Get("/health").status, 200);
  first.Close();
  EXPECT_TRUE(server.WaitIdle());
  EXPECT_EQ(server.PostText("/v1/completions", Completion("x")).status, 200);
}

TEST(Connection, KeysAreAskedForAndNamed) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "thalweg_connection_keys.txt";
  ASSERT_TRUE(base::WriteFile(path, "secret name=ann\n").ok());
  ServerOptions options = TestServer::Options();
  options.api_keys = path.string();
  TestServer server(kScript, options);
  const Json body{{"prompt", "x"}};
  EXPECT_EQ(server.Post("/v1/completions", body).status, 401);
  EXPECT_EQ(server.Post("/v1/completions", body, {{"Authorization", "Bearer wrong"}})
                .json()["error"]["code"],
            "invalid_api_key");
  EXPECT_EQ(server.Post("/v1/messages", body).json()["error"]["type"], "authentication_error");
  EXPECT_EQ(server.Post("/v1/completions", body, {{"Authorization", "Bearer secret"}}).status, 200);
  EXPECT_EQ(server.Post("/v1/completions", body, {{"x-api-key", "secret"}}).status, 200);
  EXPECT_EQ(server.Get("/health").status, 200);
  EXPECT_EQ(server.Get("/metrics").status, 200);
  EXPECT_EQ(server.Get("/v1/models").status, 401);
  std::filesystem::remove(path);
}

TEST(Connection, TheLogNamesRequestsAndKeepsTheirTextToItself) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "thalweg_access.log";
  std::filesystem::remove(path);
  ServerOptions options = TestServer::Options();
  options.access_log = path.string();
  TestServer server(kScript, options);
  const TestAnswer answer =
      server.Post("/v1/completions", Json{{"prompt", "confidential"}, {"max_tokens", 5}});
  // The line is written when the last byte has been handed over, which the client may see first.
  auto text = base::ReadFile(path, 1 << 20);
  for (int i = 0; i < 500 && text->empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    server.server().Refresh();
    text = base::ReadFile(path, 1 << 20);
  }
  ASSERT_TRUE(text.ok());
  const Json line = Json::parse(text->substr(0, text->find('\n')));
  EXPECT_EQ(line["id"], answer.headers.at("x-request-id"));
  EXPECT_EQ(line["path"], "/v1/completions");
  EXPECT_EQ(line["status"], 200);
  EXPECT_GT(line["prompt_tokens"].get<int>(), 0);
  EXPECT_EQ(text->find("confidential"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Connection, PagesOfOtherOriginsOnlyWhenAllowed) {
  TestServer closed(kScript);
  EXPECT_EQ(closed.Get("/health").headers.count("access-control-allow-origin"), 0u);
  ServerOptions options = TestServer::Options();
  options.cors_origin = "https://example.org";
  TestServer open(kScript, options);
  EXPECT_EQ(open.Get("/health").headers.at("access-control-allow-origin"), "https://example.org");
  RawClient client(open.port());
  client.Send("OPTIONS /v1/messages HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.ReadUntil("\r\n\r\n").find("204 No Content"), std::string::npos);
}

TEST(Connection, DrainingFinishesWhatIsUnderWay) {
  TestServer server(kScript);
  RawClient stream(server.port());
  stream.Send(RequestText("/v1/completions",
                          Json{{"prompt", "slow"}, {"stream", true}, {"max_tokens", 20}}.dump()));
  ASSERT_NE(stream.ReadUntil("word").find("200 OK"), std::string::npos);
  RawClient idle(server.port());
  idle.Send(HealthText());
  ASSERT_NE(idle.ReadUntil("ok").find("200"), std::string::npos);
  std::thread drain([&] { server.server().Drain([] { return false; }); });
  EXPECT_TRUE(idle.ClosedWithin(std::chrono::seconds(5)));
  const std::string rest = stream.ReadUntil("[DONE]");
  EXPECT_NE(rest.find("\"finish_reason\":\"length\""), std::string::npos);
  EXPECT_TRUE(stream.ClosedWithin(std::chrono::seconds(5)));
  drain.join();
}

TEST(Connection, DrainingGivesUpWhenTold) {
  TestServer server(kScript);
  RawClient stream(server.port());
  stream.Send(RequestText("/v1/completions", Completion("slow", true)));
  ASSERT_NE(stream.ReadUntil("word").find("200 OK"), std::string::npos);
  server.server().Drain([] { return true; });
  EXPECT_NE(stream.ReadUntil("[DONE]").find("\"finish_reason\":\"abort\""), std::string::npos);
}

TEST(Connection, ServersMayEndInTheMiddleOfEverything) {
  for (int i = 0; i < 5; ++i) {
    TestServer server(kScript);
    RawClient stream(server.port());
    stream.Send(RequestText("/v1/completions", Completion("slow", true)));
    RawClient half(server.port());
    half.Send("POST /v1/completions HTTP/1.1\r\nContent-Le");
    if (i > 0) server.WaitFor("requests", 1);
  }
}

}  // namespace
}  // namespace thalweg::server
