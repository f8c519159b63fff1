#include "server/mailbox.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "server/exchange.h"

namespace thalweg::server {

void Mailbox::Put(Letter letter) {
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    first = letters_.empty();
    letters_.push_back(std::move(letter));
  }
  if (first) boost::asio::post(*io_, [this] { Run(); });
}

void Mailbox::Post(std::shared_ptr<Exchange> exchange, size_t request, Delta delta) {
  Put({.exchange = std::move(exchange), .request = request, .delta = std::move(delta)});
}

void Mailbox::Post(std::function<void()> task) { Put({.task = std::move(task)}); }

void Mailbox::Run() {
  {
    const std::scoped_lock lock(mutex_);
    std::swap(letters_, taken_);
  }
  for (Letter& letter : taken_) {
    if (letter.task) {
      letter.task();
    } else {
      letter.exchange->Take(letter.request, letter.delta);
    }
  }
  taken_.clear();
}

}  // namespace thalweg::server
