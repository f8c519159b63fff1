// What a rank says of itself, several times a second: that it lives, what it does, whom it waits
// for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace thalweg::comm {

enum class Operation : uint8_t {
  kNone,
  kBroadcast,
  kAllGather,
  kAllToAll,
  kSum,
  kMessage,
  kBarrier,
  kExchange,
};

// "all-gather", for messages.
std::string_view NameOf(Operation operation);

enum class Health : uint8_t {
  kWell,
  kFailed,    // `text` says why; the rank takes part in nothing any more
  kLostRank,  // likewise, because it gave `rank` up; `text` says why
  kLeft,      // the communicator is gone
};

// Crosses between processes as its bytes: ranks run on machines of one kind.
struct Pulse {
  uint64_t number = 0;  // operations begun
  int32_t rank = -1;    // kWell: whom it waits for, or -1; kLostRank: whom it gave up
  Operation operation = Operation::kNone;
  Health health = Health::kWell;
  std::array<char, 242> text = {};  // zero-terminated

  void Write(std::string_view message);
  std::string_view Text() const;
};
static_assert(sizeof(Pulse) == 256 && std::is_trivially_copyable_v<Pulse>);

}  // namespace thalweg::comm
