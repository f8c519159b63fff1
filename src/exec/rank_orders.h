// What rank 0 tells the other ranks to do next, and how they answer (docs/contracts/exec.md,
// "Several ranks"). An order is a header of a fixed size and a body; both are bytes of another
// process and are checked before they are used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace thalweg::exec {

enum class Order : uint32_t {
  kStep = 1,   // body: a step plan; answered with its result
  kForward,    // rank 0 has rows that no plan tells of: go through the layers with it; no answer
  kPlacement,  // body: what is done about where experts lie (PlacementOrder); no answer
  kStop,       // the last one
};

struct OrderHeader {
  Order order = Order::kStop;
  int64_t bytes = 0;  // of the body
};

inline constexpr size_t kOrderHeaderBytes = 16;
std::array<std::byte, kOrderHeaderBytes> EncodeOrder(const OrderHeader& header);
// kInvalidArgument: not an order of this version, or a body beyond step::kMaxMessageBytes.
Result<OrderHeader> DecodeOrder(std::span<const std::byte> bytes);

// What all ranks do between two steps about the places of experts, rank 0 with them.
struct PlacementOrder {
  enum class Kind : uint32_t {
    kCount = 1,  // add up what was counted since the last time, and begin to count anew
    kBegin,      // begin to bring the experts of `layer` to `slots`
    kAdvance,    // go on, by `bytes` (model/expert_moves.h)
  };
  Kind kind = Kind::kCount;
  int32_t layer = 0;
  int64_t bytes = 0;
  std::vector<int32_t> slots = {};  // the expert of each

  bool operator==(const PlacementOrder&) const = default;
};

inline constexpr size_t kMostSlotsOfOrder = 1 << 20;
std::string EncodePlacementOrder(const PlacementOrder& order);
// kInvalidArgument: bytes of another length than they say, an unknown kind.
Result<PlacementOrder> DecodePlacementOrder(std::string_view bytes);

// Rank 0: bodies by rank, its own is not sent; empty: none has a body.
Status SendOrders(comm::Communicator* group, Order order, const std::vector<std::string>& bodies);
// Rank 0: what the others answered, by rank; its own is left alone.
Status ReceiveAnswers(comm::Communicator* group, std::vector<std::string>* answers);
// The others. Waits for as long as rank 0 lives: it may have no work for days.
Result<Order> ReceiveOrder(comm::Communicator* group, std::string* body);
Status SendAnswer(comm::Communicator* group, const std::string& answer);

}  // namespace thalweg::exec
