// A thread for connections: its event loop, its mailbox, its clock.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "server/connection.h"
#include "server/mailbox.h"

namespace thalweg::server {

struct Services;

class IoThread {
 public:
  IoThread(Services* services, int number);
  // Closes what is open and waits.
  ~IoThread();

  Services& services() { return *services_; }
  boost::asio::io_context& io() { return io_; }
  Mailbox& mailbox() { return mailbox_; }

  // From any thread.
  void Adopt(boost::asio::ip::tcp::socket socket);
  void BeginDrain();
  int64_t connections() const { return count_; }

  // From this thread.
  void Remove(Connection* connection);
  // Of a request: unlike any other of any process.
  std::string NextId();

 private:
  void ArmTimer();
  void Tick();

  Services* services_;
  uint64_t id_key_;
  uint64_t next_id_ = 0;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  boost::asio::steady_timer timer_;
  Mailbox mailbox_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::atomic<int64_t> count_ = 0;
  std::thread thread_;
};

}  // namespace thalweg::server
