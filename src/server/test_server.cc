#include "server/test_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <thread>

#include "base/check.h"

namespace thalweg::server {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;

constexpr std::chrono::milliseconds kPatience{5000};

std::shared_ptr<const text::Tokenizer> NanoTokenizer() {
  static const auto tokenizer = [] {
    auto loaded =
        text::Tokenizer::Load(std::string(THALWEG_SOURCE_DIR) + "/models/nano/tokenizer.json");
    TW_CHECK(loaded.ok());
    return std::make_shared<const text::Tokenizer>(std::move(*loaded));
  }();
  return tokenizer;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

TestAnswer Exchange(int port, http::verb verb, const std::string& path, const std::string& body,
                    const TestHeaders& headers) {
  boost::asio::io_context io;
  tcp::socket socket(io);
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(port)});
  http::request<http::string_body> request(verb, path, 11, body);
  request.set(http::field::host, "127.0.0.1");
  for (const auto& [name, value] : headers) request.set(name, value);
  request.prepare_payload();
  http::write(socket, request);
  boost::beast::flat_buffer buffer;
  http::response<http::string_body> response;
  http::read(socket, buffer, response);
  TestAnswer answer{.status = static_cast<int>(response.result_int()), .body = response.body()};
  for (const auto& field : response) {
    answer.headers[Lower(std::string(field.name_string()))] = std::string(field.value());
  }
  return answer;
}

bool Wait(const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

ServerOptions TestServer::Options() {
  ServerOptions options;
  options.port = 0;
  options.io_threads = 1;
  return options;
}

TestServer::TestServer(std::string_view script, ServerOptions options) {
  auto parsed = api::ParseFakeScript(script);
  TW_CHECK(parsed.ok());
  model_ = std::make_unique<api::FakeModel>(std::move(*parsed), NanoTokenizer());
  auto started = Server::Start(model_.get(), std::move(options));
  TW_CHECK(started.ok());
  server_ = std::move(*started);
}

TestServer::~TestServer() { server_.reset(); }

TestAnswer TestServer::Get(const std::string& path, const TestHeaders& headers) {
  return Exchange(port(), http::verb::get, path, "", headers);
}

TestAnswer TestServer::Post(const std::string& path, const Json& body, const TestHeaders& headers) {
  return PostText(path, body.dump(), headers);
}

TestAnswer TestServer::PostText(const std::string& path, const std::string& body,
                                const TestHeaders& headers) {
  return Exchange(port(), http::verb::post, path, body, headers);
}

TestAnswer PostTo(int port, const std::string& path, const std::string& body) {
  return Exchange(port, http::verb::post, path, body, {});
}

std::vector<TestEvent> TestServer::Stream(const std::string& path, Json body) {
  body["stream"] = true;
  const TestAnswer answer = Post(path, body);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream; charset=utf-8");
  return ParseEvents(answer.body);
}

int64_t TestServer::Counter(const char* name) const {
  return Json::parse(model_->MetricsJson()).at(name).get<int64_t>();
}

bool TestServer::WaitIdle() const {
  return Wait([this] {
    return Json::parse(model_->MetricsJson())["scheduler"]["running"].get<int64_t>() == 0;
  });
}

bool TestServer::WaitFor(const char* counter, int64_t value) const {
  return Wait([&] { return Counter(counter) >= value; });
}

std::vector<TestEvent> ParseEvents(std::string_view body) {
  std::vector<TestEvent> events;
  while (!body.empty()) {
    const size_t end = std::min(body.find("\n\n"), body.size());
    std::string_view block = body.substr(0, end);
    body.remove_prefix(std::min(end + 2, body.size()));
    TestEvent event;
    bool data = false;
    while (!block.empty()) {
      const size_t line_end = std::min(block.find('\n'), block.size());
      const std::string_view line = block.substr(0, line_end);
      block.remove_prefix(std::min(line_end + 1, block.size()));
      if (line.starts_with("event: ")) event.name = line.substr(7);
      if (line.starts_with("data: ")) event.data = line.substr(6);
      data = data || line.starts_with("data: ");
    }
    if (data) events.push_back(std::move(event));
  }
  return events;
}

RawClient::RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  TW_CHECK(socket_ >= 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  TW_CHECK(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
}

RawClient::~RawClient() { Close(); }

void RawClient::Close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void RawClient::ShrinkReceiveBuffer(int bytes) {
  TW_CHECK(::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) == 0);
}

void RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the other side has ended the connection
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool RawClient::ReadSome(std::chrono::milliseconds time, std::string* out) {
  pollfd wanted{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&wanted, 1, static_cast<int>(time.count())) <= 0) return true;
  char bytes[4096];
  const ssize_t count = ::recv(socket_, bytes, sizeof(bytes), 0);
  if (count <= 0) return false;
  out->assign(bytes, static_cast<size_t>(count));
  return true;
}

std::string RawClient::ReadUntil(std::string_view needle) {
  std::string all;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (all.find(needle) == std::string::npos && std::chrono::steady_clock::now() < until) {
    std::string some;
    if (!ReadSome(std::chrono::milliseconds(50), &some)) break;
    all += some;
  }
  return all;
}

bool RawClient::ClosedWithin(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
    std::string some;
    if (!ReadSome(std::chrono::milliseconds(20), &some)) return true;
  }
  return false;
}

std::string RequestText(const std::string& path, const std::string& body,
                        const std::string& more_headers) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n{}", path,
                     body.size(), more_headers, body);
}

}  // namespace thalweg::server
