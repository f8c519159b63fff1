#include "server/server.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <future>
#include <thread>
#include <utility>

#include "base/log.h"
#include "server/io_thread.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kDrainPoll{20};
constexpr std::chrono::milliseconds kAcceptPause{100};  // when the process is out of files

}  // namespace

Server::Server(std::unique_ptr<Services> services) : services_(std::move(services)) {}

Result<std::unique_ptr<Server>> Server::Start(api::ServedModel* model, ServerOptions options) {
  auto services = std::make_unique<Services>(model, std::move(options));
  const ServerOptions& o = services->options;
  TW_ASSIGN(services->log, AccessLog::Open(o.access_log, o.log_bodies));
  if (!o.api_keys.empty()) {
    const KeyLimits defaults{.requests = o.limits.key_requests, .rate = o.limits.key_rate};
    TW_ASSIGN(services->keys, KeyFile::Open(o.api_keys, defaults));
  }
  std::unique_ptr<Server> server(new Server(std::move(services)));
  TW_TRY(server->Listen());
  return server;
}

Status Server::Listen() {
  const ServerOptions& options = services_->options;
  const std::string where = fmt::format("{}:{}", options.host, options.port);
  for (int i = 0; i < options.io_threads; ++i)
    threads_.push_back(std::make_unique<IoThread>(services_.get(), i));
  error_code error;
  const auto address = boost::asio::ip::make_address(options.host, error);
  if (error) return base::InvalidArgument(fmt::format("--host {} is no IP address", options.host));
  const tcp::endpoint endpoint(address, static_cast<uint16_t>(options.port));
  acceptor_ = std::make_unique<tcp::acceptor>(threads_.front()->io());
  pause_ = std::make_unique<boost::asio::steady_timer>(threads_.front()->io());
  acceptor_->open(endpoint.protocol(), error);
  if (!error) acceptor_->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_->bind(endpoint, error);
  if (!error) acceptor_->listen(boost::asio::socket_base::max_listen_connections, error);
  if (error) return base::IoError(fmt::format("cannot listen on {}: {}", where, error.message()));
  port_ = acceptor_->local_endpoint(error).port();
  boost::asio::post(threads_.front()->io(), [this] { Accept(); });
  return {};
}

void Server::Accept() {
  if (!acceptor_->is_open()) return;
  IoThread& thread = *threads_[next_thread_];
  next_thread_ = (next_thread_ + 1) % threads_.size();
  acceptor_->async_accept(thread.io(), [this](const error_code& error, tcp::socket socket) {
    OnAccepted(error, std::move(socket));
  });
}

void Server::OnAccepted(const error_code& error, tcp::socket socket) {
  if (error == boost::asio::error::operation_aborted) return;
  if (error) {
    spdlog::warn("accepting a connection: {}", error.message());
    pause_->expires_after(kAcceptPause);
    return pause_->async_wait([this](const error_code& stopped) {
      if (!stopped) Accept();
    });
  }
  if (Connections() >= services_->options.limits.connections) {
    services_->metrics.OnAbort("too_many_connections");  // the socket closes as it goes
  } else {
    const size_t thread = (next_thread_ + threads_.size() - 1) % threads_.size();
    threads_[thread]->Adopt(std::move(socket));
  }
  Accept();
}

int64_t Server::Connections() const {
  int64_t count = 0;
  for (const auto& thread : threads_) count += thread->connections();
  return count;
}

void Server::Refresh() {
  if (services_->log != nullptr) services_->log->Flush();
  if (services_->keys == nullptr) return;
  const Status status = services_->keys->Refresh();
  if (!status.ok()) spdlog::warn("API keys stay as they were: {}", status.message());
}

void Server::Drain(const std::function<bool()>& give_up) {
  services_->draining = true;
  std::promise<void> closed;
  boost::asio::post(threads_.front()->io(), [this, &closed] {
    error_code ignored;
    acceptor_->close(ignored);
    pause_->cancel();
    closed.set_value();
  });
  closed.get_future().wait();
  for (const auto& thread : threads_) thread->BeginDrain();
  while (services_->admission.under_way() > 0 && !give_up())
    std::this_thread::sleep_for(kDrainPoll);
  const int64_t cut = services_->model->Drain(true);
  if (cut > 0) spdlog::warn("{} requests were cut off", cut);
  // What has just been answered is still on its way out.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (Connections() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kDrainPoll);
  Refresh();
}

Server::~Server() {
  services_->workers.join();
  // No increment comes any more once the model has let go of every request.
  services_->model->Drain(true);
  if (acceptor_ != nullptr && acceptor_->is_open()) {
    std::promise<void> closed;
    boost::asio::post(threads_.front()->io(), [this, &closed] {
      error_code ignored;
      acceptor_->close(ignored);
      closed.set_value();
    });
    closed.get_future().wait();
  }
  threads_.clear();
}

}  // namespace thalweg::server
