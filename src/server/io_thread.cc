#include "server/io_thread.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/sha256.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr uint32_t kIdPurpose = 0x72657169;

// Unlike that of any other thread, process or start.
uint64_t DrawKey(int number) {
  const base::Sha256Digest digest = base::Sha256Of(
      fmt::format("{} {} {} {}", std::chrono::system_clock::now().time_since_epoch().count(),
                  std::chrono::steady_clock::now().time_since_epoch().count(), ::getpid(), number));
  uint64_t key = 0;
  for (size_t i = 0; i < sizeof(key); ++i) key = key << 8 | digest[i];
  return key;
}

}  // namespace

IoThread::IoThread(Services* services, int number)
    : services_(services),
      id_key_(DrawKey(number)),
      guard_(io_.get_executor()),
      timer_(io_),
      mailbox_(&io_) {
  ArmTimer();
  thread_ = std::thread([this] { io_.run(); });
}

IoThread::~IoThread() {
  boost::asio::post(io_, [this] {
    timer_.cancel();
    const auto open = connections_;
    for (const auto& [connection, owner] : open) connection->Close();
    guard_.reset();
    io_.stop();
  });
  thread_.join();
}

void IoThread::Adopt(boost::asio::ip::tcp::socket socket) {
  ++count_;
  auto shared = std::make_shared<boost::asio::ip::tcp::socket>(std::move(socket));
  boost::asio::post(io_, [this, shared] {
    auto connection = std::make_shared<Connection>(std::move(*shared), this);
    connections_.emplace(connection.get(), connection);
    connection->Start();
  });
}

void IoThread::Remove(Connection* connection) {
  if (connections_.erase(connection) > 0) --count_;
}

void IoThread::BeginDrain() {
  boost::asio::post(io_, [this] {
    const auto open = connections_;
    for (const auto& [connection, owner] : open) connection->BeginDrain();
  });
}

std::string IoThread::NextId() {
  const uint64_t number = next_id_++;
  const base::PhiloxCounter words = base::Philox4x32(
      {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 0, kIdPurpose},
      base::PhiloxKeyOf(id_key_));
  return fmt::format("{:08x}{:08x}{:08x}", words[0], words[1], words[2]);
}

void IoThread::ArmTimer() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Tick();
  });
}

void IoThread::Tick() {
  const auto now = Connection::Clock::now();
  // A connection that closes leaves the map.
  std::vector<std::shared_ptr<Connection>> open;
  open.reserve(connections_.size());
  for (const auto& [connection, owner] : connections_) open.push_back(owner);
  for (const auto& connection : open) connection->Tick(now);
  ArmTimer();
}

}  // namespace thalweg::server
