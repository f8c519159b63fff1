#include "server/connection.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <utility>

#include "base/log.h"
#include "server/io_thread.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kIdleReadBytes = 4096;
constexpr size_t kBusyReadBytes = 64u << 10;
// Bytes of further requests that are read while one is answered.
constexpr size_t kMaxPipelinedBytes = 64u << 10;
// What was refused may still be on its way: closing at once would lose the answer.
constexpr std::chrono::seconds kLingerTime{2};

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

ApiError ParseError(const error_code& error) {
  if (error == http::error::body_limit)
    return {.status = 413, .message = "the body is too large (--max-body-bytes)"};
  if (error == http::error::header_limit) {
    return {.status = 431,
            .message = fmt::format("header fields may have {} bytes at most", kMaxHeaderBytes)};
  }
  return {.status = 400, .message = "no HTTP request: " + error.message()};
}

}  // namespace

Connection::Connection(boost::asio::ip::tcp::socket socket, IoThread* thread)
    : socket_(std::move(socket)), thread_(thread) {
  thread_->services().metrics.OnConnection(1);
}

Connection::~Connection() { thread_->services().metrics.OnConnection(-1); }

void Connection::Start() {
  error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  const auto endpoint = socket_.remote_endpoint(ignored);
  if (!ignored) remote_ = endpoint.address().to_string();
  Read();
}

void Connection::Read() {
  if (reading_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && buffer_.size() >= kMaxPipelinedBytes) return;
  reading_ = true;
  const size_t most = state_ == State::kReading ? kBusyReadBytes : kIdleReadBytes;
  socket_.async_read_some(
      buffer_.prepare(most),
      [self = shared_from_this()](const error_code& e, size_t n) { self->OnRead(e, n); });
}

void Connection::OnRead(const error_code& error, size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) return Close();
  buffer_.commit(bytes);
  if (state_ == State::kLingering) buffer_.consume(buffer_.size());
  if (state_ == State::kIdle || state_ == State::kReading) Parse();
  Read();
}

void Connection::BeginRequest() {
  state_ = State::kReading;
  since_ = Clock::now();
  continued_ = false;
  parser_.emplace();
  parser_->eager(true);
  parser_->header_limit(kMaxHeaderBytes);
  parser_->body_limit(thread_->services().options.limits.body_bytes);
}

void Connection::Parse() {
  if (buffer_.size() == 0) return;
  if (state_ == State::kIdle) BeginRequest();
  error_code error;
  while (buffer_.size() > 0 && !parser_->is_done()) {
    const size_t used = parser_->put(buffer_.data(), error);
    buffer_.consume(used);
    if (error == http::error::need_more) break;
    if (error) return OnParseError(error);
    if (used == 0) break;
  }
  if (parser_->is_done()) return OnRequest();
  if (parser_->is_header_done()) SendContinue();
}

void Connection::SendContinue() {
  if (continued_) return;
  continued_ = true;
  if (!boost::beast::iequals(parser_->get()[http::field::expect], "100-continue")) return;
  out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  Send();
}

void Connection::OnParseError(const error_code& error) {
  keep_alive_ = false;
  state_ = State::kAnswering;
  Refuse(ParseError(error), Dialect::kOpenAi);
}

HttpRequest Connection::TakeRequest() {
  auto message = parser_->release();
  HttpRequest request;
  request.method = View(message.method_string());
  const std::string_view target = View(message.target());
  const size_t question = std::min(target.find('?'), target.size());
  request.path = target.substr(0, question);
  if (question < target.size()) request.query = target.substr(question + 1);
  request.authorization = View(message[http::field::authorization]);
  request.api_key = View(message["x-api-key"]);
  request.origin = View(message[http::field::origin]);
  request.body = std::move(message.body());
  request.id = thread_->NextId();
  keep_alive_ = message.keep_alive() && !thread_->services().draining;
  return request;
}

void Connection::OnRequest() {
  state_ = State::kAnswering;
  since_ = Clock::now();
  ending_ = streaming_ = false;
  HttpRequest request = TakeRequest();
  parser_.reset();
  head_only_ = request.method == "HEAD";
  if (head_only_) request.method = "GET";
  Answer(std::move(request));
}

bool Connection::Authorize(const Route& route, HttpRequest* request, KeyLimits* limits) {
  const Services& services = thread_->services();
  *limits = {.requests = services.options.limits.key_requests,
             .rate = services.options.limits.key_rate};
  if (services.keys == nullptr || route.access == Route::Access::kOpen) return true;
  if (route.access == Route::Access::kMetrics && services.options.open_metrics) return true;
  const std::string_view given = KeyOf(request->authorization, request->api_key);
  const std::optional<ApiKey> key = services.keys->Find(given);
  if (key.has_value()) {
    request->caller = key->name;
    *limits = key->limits;
    return true;
  }
  Refuse({.status = 401,
          .message = given.empty()
                         ? "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"
                         : "this API key is not known here",
          .code = "invalid_api_key"},
         route.dialect);
  return false;
}

void Connection::Answer(HttpRequest request) {
  Services& services = thread_->services();
  const Route route = FindRoute(request);
  KeyLimits limits;
  exchange_ = std::make_shared<Exchange>(
      &services, &thread_->mailbox(), this, route,
      HttpRequest{.method = request.method, .path = request.path, .id = request.id});
  if (!Authorize(route, &request, &limits)) return;
  Admission::Ticket ticket;
  if (route.works) {
    if (services.draining) {
      return Refuse({.status = 503, .message = "the server is shutting down: try another one"},
                    route.dialect);
    }
    auto entered = services.admission.Enter(request.caller, limits, Clock::now());
    if (auto* error = std::get_if<ApiError>(&entered)) {
      services.metrics.OnAbort("queue_full");
      return Refuse(*error, route.dialect);
    }
    ticket = std::get<Admission::Ticket>(std::move(entered));
  }
  exchange_ =
      std::make_shared<Exchange>(&services, &thread_->mailbox(), this, route, std::move(request));
  exchange_->Start(std::move(ticket));
}

void Connection::Refuse(const ApiError& error, Dialect dialect) {
  Respond(ErrorResponse(error, dialect));
}

void Connection::AddCommonHeaders(HttpResponse* response) const {
  if (exchange_ != nullptr) response->headers.emplace_back("x-request-id", exchange_->record().id);
  const std::string& origin = thread_->services().options.cors_origin;
  if (!origin.empty()) response->headers.emplace_back("Access-Control-Allow-Origin", origin);
}

void Connection::Respond(HttpResponse response) {
  AddCommonHeaders(&response);
  out_ += ResponseHead(response, static_cast<int64_t>(response.body.size()), keep_alive_);
  if (!head_only_) out_ += response.body;
  ending_ = true;
  written_ = Clock::now();
  Send();
}

void Connection::BeginStream(HttpResponse head) {
  AddCommonHeaders(&head);
  out_ += ResponseHead(head, -1, keep_alive_);
  streaming_ = true;
  written_ = Clock::now();
}

void Connection::Write(std::string_view events) { AppendChunk(events, &out_); }

void Connection::Flush() {
  if (out_.size() > thread_->services().options.limits.backlog_bytes) {
    thread_->services().metrics.OnAbort("slow_reader");
    return Close();
  }
  SendAtOnce();
  Send();
}

// A socket mostly takes an increment at once, which spares it the way through the event loop. What
// is left over, an error too, is for Send.
void Connection::SendAtOnce() {
  if (state_ == State::kClosed || ending_ || !sending_.empty() || out_.empty()) return;
  error_code error;
  const size_t sent = socket_.write_some(boost::asio::buffer(out_), error);
  if (error) return;
  out_.erase(0, sent);
  written_ = Clock::now();
}

void Connection::EndStream() {
  out_ += kLastChunk;
  ending_ = true;
  Send();
}

void Connection::Send() {
  if (state_ == State::kClosed) return;
  if (sending_.empty()) {
    if (out_.empty()) return;
    std::swap(sending_, out_);
    sent_ = 0;
    written_ = Clock::now();  // a stream that was silent has not stalled
  } else if (sent_ == 0 || sent_ < sending_.size()) {
    return;  // OnWritten goes on
  }
  socket_.async_write_some(
      boost::asio::buffer(sending_),
      [self = shared_from_this()](const error_code& e, size_t n) { self->OnWritten(e, n); });
}

void Connection::OnWritten(const error_code& error, size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) return Close();
  written_ = Clock::now();
  sent_ += bytes;
  if (sent_ < sending_.size()) {
    socket_.async_write_some(
        boost::asio::buffer(sending_) + sent_,
        [self = shared_from_this()](const error_code& e, size_t n) { self->OnWritten(e, n); });
    return;
  }
  sending_.clear();
  sent_ = 0;
  if (!out_.empty()) return Send();
  if (ending_) OnAnswered();
}

void Connection::OnAnswered() {
  LogAnswer();
  exchange_.reset();
  ending_ = false;
  if (!keep_alive_ || thread_->services().draining) return Linger();
  state_ = State::kIdle;
  since_ = Clock::now();
  Parse();
  Read();
}

void Connection::Linger() {
  state_ = State::kLingering;
  since_ = Clock::now();
  error_code ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  buffer_.consume(buffer_.size());
  Read();
}

void Connection::LogAnswer() {
  if (exchange_ == nullptr) return;
  RequestRecord record = exchange_->record();
  record.end = Clock::now();
  record.remote = remote_;
  Services& services = thread_->services();
  services.metrics.OnResponse(record);
  if (services.log != nullptr) services.log->Write(record);
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  if (exchange_ != nullptr) {
    exchange_->Abandon();
    LogAnswer();
    exchange_.reset();
  }
  error_code ignored;
  socket_.close(ignored);
  thread_->Remove(this);
}

void Connection::BeginDrain() {
  if (state_ == State::kIdle) Close();
}

void Connection::Tick(Clock::time_point now) {
  const Limits& limits = thread_->services().options.limits;
  const auto spent = now - since_;
  if (!sending_.empty() && now - written_ > limits.stall) {
    thread_->services().metrics.OnAbort("slow_reader");
    return Close();
  }
  if (state_ == State::kIdle && spent > limits.idle) return Close();
  if (state_ == State::kLingering && spent > kLingerTime) return Close();
  if (state_ == State::kReading) {
    const bool header = !parser_->is_header_done();
    if (spent > (header ? limits.header_time : limits.body_time)) return Close();
  }
  if (state_ == State::kAnswering && streaming_ && !ending_ && sending_.empty() &&
      now - written_ > limits.keep_alive) {
    exchange_->KeepAlive();
  }
}

}  // namespace thalweg::server
