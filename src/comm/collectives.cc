// The collective operations, as movements of messages.
#include <numeric>

#include "base/check.h"
#include "comm/communicator.h"

namespace thalweg::comm {
namespace {

int64_t SizeOf(std::span<const std::byte> bytes) { return static_cast<int64_t>(bytes.size()); }

// The messages of consecutive parts of `whole`, one for each rank.
template <typename Message, typename Byte>
std::vector<Message> Parts(std::span<Byte> whole, std::span<const int64_t> bytes) {
  std::vector<Message> parts;
  parts.reserve(bytes.size());
  size_t begin = 0;
  for (size_t r = 0; r < bytes.size(); ++r) {
    const auto size = static_cast<size_t>(bytes[r]);
    parts.push_back({static_cast<int>(r), whole.subspan(begin, size)});
    begin += size;
  }
  TW_CHECK_EQ(begin, whole.size());
  return parts;
}

}  // namespace

Status Communicator::Broadcast(int root, std::span<std::byte> data) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  if (rank_ != root) {
    in.push_back({root, data});
  } else {
    for (int r = 0; r < size_; ++r)
      if (r != root) out.push_back({r, data});
  }
  return Move(Operation::kBroadcast, out, in);
}

Status Communicator::AllGather(std::span<const std::byte> mine, std::span<const int64_t> bytes,
                               std::span<std::byte> all) {
  TW_CHECK_EQ(bytes.size(), static_cast<size_t>(size_));
  TW_CHECK_EQ(bytes[static_cast<size_t>(rank_)], SizeOf(mine));
  std::vector<Outgoing> out;
  for (int r = 0; r < size_; ++r) out.push_back({r, mine});
  return Move(Operation::kAllGather, out, Parts<Incoming>(all, bytes));
}

Status Communicator::AllGather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::vector<int64_t> bytes(static_cast<size_t>(size_), SizeOf(mine));
  return AllGather(mine, bytes, all);
}

Status Communicator::AllToAll(std::span<const std::byte> out, std::span<const int64_t> out_bytes,
                              std::span<std::byte> in, std::span<const int64_t> in_bytes) {
  TW_CHECK_EQ(out_bytes.size(), static_cast<size_t>(size_));
  TW_CHECK_EQ(in_bytes.size(), static_cast<size_t>(size_));
  return Move(Operation::kAllToAll, Parts<Outgoing>(out, out_bytes), Parts<Incoming>(in, in_bytes));
}

// Everybody hears of everybody: nobody passes before the last has come.
Status Communicator::Barrier(std::optional<Milliseconds> patience) {
  TW_CHECK(on_host());
  const std::byte here{1};
  std::vector<std::byte> seen(static_cast<size_t>(size_));
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int r = 0; r < size_; ++r) {
    out.push_back({r, {&here, 1}});
    in.push_back({r, {&seen[static_cast<size_t>(r)], 1}});
  }
  return Move(Operation::kBarrier, out, in, patience);
}

Status Communicator::Send(int to, std::span<const std::byte> bytes) {
  TW_CHECK(to != rank_);
  const Outgoing message{to, bytes};
  return Move(Operation::kMessage, {&message, 1}, {});
}

Status Communicator::Receive(int from, std::span<std::byte> bytes) {
  TW_CHECK(from != rank_);
  const Incoming message{from, bytes};
  return Move(Operation::kMessage, {}, {&message, 1});
}

}  // namespace thalweg::comm
