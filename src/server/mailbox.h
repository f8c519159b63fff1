// What other threads hand to an I/O thread: increments and tasks, in order, woken up once for many.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "server/reply.h"

namespace thalweg::server {

class Exchange;

class Mailbox {
 public:
  explicit Mailbox(boost::asio::io_context* io) : io_(io) {}

  // From any thread.
  void Post(std::shared_ptr<Exchange> exchange, size_t request, Delta delta);
  void Post(std::function<void()> task);
  // From the I/O thread: runs what is there.
  void Run();

 private:
  struct Letter {
    std::function<void()> task = {};  // or, without one:
    std::shared_ptr<Exchange> exchange = {};
    size_t request = 0;
    Delta delta = {};
  };
  void Put(Letter letter);

  boost::asio::io_context* io_;
  std::mutex mutex_;
  std::vector<Letter> letters_;
  std::vector<Letter> taken_;  // reused by Run
};

}  // namespace thalweg::server
