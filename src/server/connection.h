// One client: its socket, the request that is read, the response that is written.
//
// One read is always under way, also while an answer is written: so the end of the connection is
// seen when it comes. Everything happens on one I/O thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/exchange.h"

namespace thalweg::server {

class IoThread;

class Connection final : public std::enable_shared_from_this<Connection>, public Responder {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(boost::asio::ip::tcp::socket socket, IoThread* thread);
  ~Connection() override;

  void Start();
  // Looks at the time: closes what is idle, stalled or too slow, keeps silent streams alive.
  void Tick(Clock::time_point now);
  // No request follows the one that is under way, if one is.
  void BeginDrain();
  void Close();

  void Respond(HttpResponse response) override;
  void BeginStream(HttpResponse head) override;
  void Write(std::string_view events) override;
  void Flush() override;
  void EndStream() override;

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  // kLingering: the answer is out, what the client still sends is read over until it closes.
  enum class State { kIdle, kReading, kAnswering, kLingering, kClosed };

  void Read();
  void OnRead(const boost::system::error_code& error, size_t bytes);
  void Parse();
  void BeginRequest();
  void OnParseError(const boost::system::error_code& error);
  void OnRequest();
  HttpRequest TakeRequest();
  void Answer(HttpRequest request);
  bool Authorize(const Route& route, HttpRequest* request, KeyLimits* limits);
  void Refuse(const ApiError& error, Dialect dialect);
  void AddCommonHeaders(HttpResponse* response) const;
  void SendContinue();
  void SendAtOnce();
  void Send();
  void OnWritten(const boost::system::error_code& error, size_t bytes);
  void OnAnswered();
  void Linger();
  void LogAnswer();

  boost::asio::ip::tcp::socket socket_;
  IoThread* thread_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  State state_ = State::kIdle;
  bool reading_ = false;    // an asynchronous read is under way
  bool continued_ = false;  // 100 Continue was sent
  bool keep_alive_ = true;  // after this answer
  bool head_only_ = false;  // HEAD
  bool streaming_ = false;
  bool ending_ = false;                       // all of the answer is in out_
  Clock::time_point since_ = Clock::now();    // begin of the state
  Clock::time_point written_ = Clock::now();  // the newest progress of writing
  std::string out_;                           // to be sent after sending_
  std::string sending_;
  size_t sent_ = 0;  // of sending_
  std::shared_ptr<Exchange> exchange_;
  std::string remote_;
};

}  // namespace thalweg::server
