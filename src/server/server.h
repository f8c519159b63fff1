// The HTTP server: listens, hands connections to its threads, stops gracefully.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <vector>

#include "api/served_model.h"
#include "base/status.h"
#include "server/options.h"

namespace thalweg::server {

struct Services;
class IoThread;

class Server {
 public:
  // Listens and answers from now on. `model` must outlive the server.
  static Result<std::unique_ptr<Server>> Start(api::ServedModel* model, ServerOptions options);
  // Cuts off what is under way.
  ~Server();

  int port() const { return port_; }
  // Work that is due about once a second: reads a changed key file, writes logs out.
  void Refresh();
  // Takes nothing new, waits for what is under way until `give_up` says true, then cancels it.
  void Drain(const std::function<bool()>& give_up);

 private:
  explicit Server(std::unique_ptr<Services> services);
  Status Listen();
  void Accept();
  void OnAccepted(const boost::system::error_code& error, boost::asio::ip::tcp::socket socket);
  int64_t Connections() const;

  std::unique_ptr<Services> services_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::unique_ptr<boost::asio::ip::tcp::acceptor> acceptor_;  // on the first thread
  std::unique_ptr<boost::asio::steady_timer> pause_;
  size_t next_thread_ = 0;
  int port_ = 0;
};

}  // namespace thalweg::server
