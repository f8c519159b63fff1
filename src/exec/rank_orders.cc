#include "exec/rank_orders.h"

#include <fmt/format.h>

#include <cstring>

#include "step/codec.h"

namespace thalweg::exec {
namespace {

using comm::Communicator;
using comm::Incoming;
using comm::Movement;
using comm::Operation;
using comm::Outgoing;

constexpr uint32_t kMagic = 0x31444f54;  // "TOD1"
constexpr comm::Milliseconds kForEver{std::chrono::hours(24 * 365)};

struct Words {
  uint32_t magic = kMagic;
  uint32_t order = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(Words) == kOrderHeaderBytes);

struct PlacementWords {
  uint32_t kind = 0;
  int32_t layer = 0;
  int64_t bytes = 0;
  uint64_t slots = 0;
};
static_assert(sizeof(PlacementWords) == 24);

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string TextOf(int64_t bytes) { return std::string(static_cast<size_t>(bytes), '\0'); }

}  // namespace

std::array<std::byte, kOrderHeaderBytes> EncodeOrder(const OrderHeader& header) {
  const Words words{.order = static_cast<uint32_t>(header.order),
                    .bytes = static_cast<uint64_t>(header.bytes)};
  std::array<std::byte, kOrderHeaderBytes> bytes = {};
  std::memcpy(bytes.data(), &words, sizeof(words));
  return bytes;
}

Result<OrderHeader> DecodeOrder(std::span<const std::byte> bytes) {
  Words words;
  if (bytes.size() != sizeof(words))
    return base::InvalidArgument(fmt::format("an order of {} bytes", bytes.size()));
  std::memcpy(&words, bytes.data(), sizeof(words));
  const bool known = words.order >= static_cast<uint32_t>(Order::kStep) &&
                     words.order <= static_cast<uint32_t>(Order::kStop);
  if (words.magic != kMagic || !known)
    return base::InvalidArgument("an order that this version does not know");
  if (words.bytes > static_cast<uint64_t>(step::kMaxMessageBytes))
    return base::InvalidArgument(fmt::format("an order with a body of {} bytes", words.bytes));
  return OrderHeader{static_cast<Order>(words.order), static_cast<int64_t>(words.bytes)};
}

std::string EncodePlacementOrder(const PlacementOrder& order) {
  const PlacementWords words{.kind = static_cast<uint32_t>(order.kind),
                             .layer = order.layer,
                             .bytes = order.bytes,
                             .slots = order.slots.size()};
  std::string text(reinterpret_cast<const char*>(&words), sizeof(words));
  text.append(reinterpret_cast<const char*>(order.slots.data()),
              order.slots.size() * sizeof(int32_t));
  return text;
}

Result<PlacementOrder> DecodePlacementOrder(std::string_view bytes) {
  using Kind = PlacementOrder::Kind;
  PlacementWords words;
  if (bytes.size() < sizeof(words))
    return base::InvalidArgument(fmt::format("places of experts in {} bytes", bytes.size()));
  std::memcpy(&words, bytes.data(), sizeof(words));
  bytes.remove_prefix(sizeof(words));
  const bool known = words.kind >= static_cast<uint32_t>(Kind::kCount) &&
                     words.kind <= static_cast<uint32_t>(Kind::kAdvance);
  if (!known)
    return base::InvalidArgument("an order about experts that this version does not know");
  if (words.slots > kMostSlotsOfOrder || bytes.size() != words.slots * sizeof(int32_t))
    return base::InvalidArgument(
        fmt::format("{} places of experts in {} bytes", words.slots, bytes.size()));
  PlacementOrder order{.kind = static_cast<Kind>(words.kind),
                       .layer = words.layer,
                       .bytes = words.bytes,
                       .slots = std::vector<int32_t>(words.slots)};
  if (words.slots > 0) std::memcpy(order.slots.data(), bytes.data(), bytes.size());
  return order;
}

Status SendOrders(Communicator* group, Order order, const std::vector<std::string>& bodies) {
  std::vector<std::array<std::byte, kOrderHeaderBytes>> headers;
  std::vector<Outgoing> heads, texts;
  headers.reserve(static_cast<size_t>(group->size()));
  for (int r = 1; r < group->size(); ++r) {
    const auto body =
        bodies.empty() ? std::span<const std::byte>() : BytesOf(bodies[static_cast<size_t>(r)]);
    headers.push_back(EncodeOrder({order, static_cast<int64_t>(body.size())}));
    heads.push_back({r, headers.back()});
    texts.push_back({r, body});
  }
  TW_TRY(group->Exchange({Operation::kMessage, heads, {}}));
  return group->Exchange({Operation::kMessage, texts, {}});
}

Status ReceiveAnswers(Communicator* group, std::vector<std::string>* answers) {
  const auto others = static_cast<size_t>(group->size()) - 1;
  answers->resize(others + 1);
  std::vector<uint64_t> lengths(others);
  std::vector<Incoming> heads, texts;
  for (size_t i = 0; i < others; ++i)
    heads.push_back(
        {static_cast<int>(i) + 1, std::as_writable_bytes(std::span(&lengths[i], size_t{1}))});
  TW_TRY(group->Exchange({Operation::kMessage, {}, heads}));
  for (size_t i = 0; i < others; ++i) {
    if (lengths[i] > static_cast<uint64_t>(step::kMaxMessageBytes))
      return base::Internal(fmt::format("rank {} answers {} bytes", i + 1, lengths[i]));
    std::string& answer = (*answers)[i + 1];
    answer.resize(lengths[i]);
    texts.push_back({static_cast<int>(i) + 1, std::as_writable_bytes(std::span(answer))});
  }
  return group->Exchange({Operation::kMessage, {}, texts});
}

Result<Order> ReceiveOrder(Communicator* group, std::string* body) {
  std::array<std::byte, kOrderHeaderBytes> bytes = {};
  const Incoming head{0, bytes};
  TW_ASSIGN(const comm::Ticket ticket, group->Begin({Operation::kMessage, {}, {&head, 1}}));
  TW_TRY(group->Finish(ticket, kForEver));
  TW_ASSIGN(const OrderHeader header, DecodeOrder(bytes));
  *body = TextOf(header.bytes);
  TW_TRY(group->Receive(0, std::as_writable_bytes(std::span(*body))));
  return header.order;
}

Status SendAnswer(Communicator* group, const std::string& answer) {
  const uint64_t length = answer.size();
  TW_TRY(group->Send(0, std::as_bytes(std::span(&length, size_t{1}))));
  return group->Send(0, BytesOf(answer));
}

}  // namespace thalweg::exec
