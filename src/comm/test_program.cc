#include "comm/test_program.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/rng.h"

namespace thalweg::comm {
namespace {

// Draws are functions of (seed, operation, who, what).
struct Draws {
  uint64_t seed;
  uint32_t operation = 0;

  uint32_t At(uint32_t who, uint32_t what) const {
    return base::Philox4x32({who, what, operation, 0}, base::PhiloxKeyOf(seed))[0];
  }
  int64_t Below(int64_t bound, uint32_t who, uint32_t what) const {
    return At(who, what) % static_cast<uint32_t>(bound);
  }
};

constexpr uint32_t kEverybody = 1000;

struct Turn {
  Communicator& comm;
  const ProgramOptions& options;
  Draws draws;

  int rank() const { return comm.rank(); }
  auto size() const { return static_cast<size_t>(comm.size()); }
  // Bytes from one rank to another; the same rank every time where all get the same.
  int64_t Bytes(size_t from, size_t to) const {
    const auto what = static_cast<uint32_t>(to + 10);
    // A third is empty: ranks without rows are ordinary.
    if (draws.Below(3, static_cast<uint32_t>(from), what) == 0) return 0;
    return draws.Below(options.most_bytes, static_cast<uint32_t>(from), what + 5000);
  }
  static std::byte Value(size_t from, size_t to, size_t i) {
    return static_cast<std::byte>(i * 7 + from * 31 + to * 13);
  }
  std::vector<std::byte> Message(size_t from, size_t to) const {
    std::vector<std::byte> bytes(static_cast<size_t>(Bytes(from, to)));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = Value(from, to, i);
    return bytes;
  }
  Status Expect(bool equal, std::string_view what) const {
    if (equal) return {};
    return base::Internal(
        fmt::format("operation {}: {} differs on rank {}", draws.operation, what, rank()));
  }
};

Status DoBroadcast(const Turn& turn) {
  const auto root = static_cast<size_t>(turn.draws.Below(turn.comm.size(), kEverybody, 1));
  const std::vector<std::byte> expected = turn.Message(root, 0);
  std::vector<std::byte> data(expected.size());
  if (turn.rank() == static_cast<int>(root)) data = expected;
  TW_TRY(turn.comm.Broadcast(static_cast<int>(root), data));
  return turn.Expect(data == expected, "broadcast");
}

Status DoAllGather(const Turn& turn) {
  std::vector<std::byte> expected;
  std::vector<int64_t> bytes;
  for (size_t r = 0; r < turn.size(); ++r) {
    const auto message = turn.Message(r, 0);
    bytes.push_back(static_cast<int64_t>(message.size()));
    expected.insert(expected.end(), message.begin(), message.end());
  }
  std::vector<std::byte> all(expected.size());
  TW_TRY(turn.comm.AllGather(turn.Message(static_cast<size_t>(turn.rank()), 0), bytes, all));
  return turn.Expect(all == expected, "all-gather");
}

Status DoAllToAll(const Turn& turn) {
  const auto self = static_cast<size_t>(turn.rank());
  std::vector<std::byte> out, expected;
  std::vector<int64_t> out_bytes, in_bytes;
  for (size_t r = 0; r < turn.size(); ++r) {
    const auto to = turn.Message(self, r);
    const auto from = turn.Message(r, self);
    out.insert(out.end(), to.begin(), to.end());
    expected.insert(expected.end(), from.begin(), from.end());
    out_bytes.push_back(static_cast<int64_t>(to.size()));
    in_bytes.push_back(static_cast<int64_t>(from.size()));
  }
  std::vector<std::byte> in(expected.size());
  TW_TRY(turn.comm.AllToAll(out, out_bytes, in, in_bytes));
  return turn.Expect(in == expected, "all-to-all");
}

// Numbers of very different size: another order gives other bits.
template <typename T>
T Addend(const Turn& turn, size_t r, size_t i) {
  const uint32_t word = turn.draws.At(static_cast<uint32_t>(r), static_cast<uint32_t>(i) + 9000);
  if constexpr (std::is_integral_v<T>) return static_cast<T>(word) - 2'000'000'000;
  const auto unit = static_cast<T>(base::OpenUnit(word)) - T(0.5);
  return (word & 1) != 0 ? unit * T(1e5) : unit * T(1e-3);
}

template <typename T, typename Wide, typename Sum>
Status DoSum(const Turn& turn, const Sum& sum) {
  const auto count = static_cast<size_t>(turn.draws.Below(3000, kEverybody, 2));
  std::vector<T> values(count), expected(count);
  for (size_t i = 0; i < count; ++i) {
    auto total = static_cast<Wide>(Addend<T>(turn, 0, i));
    for (size_t r = 1; r < turn.size(); ++r)
      total = total + static_cast<Wide>(Addend<T>(turn, r, i));
    expected[i] = static_cast<T>(total);
    values[i] = Addend<T>(turn, static_cast<size_t>(turn.rank()), i);
  }
  TW_TRY(sum(std::span(values)));
  return turn.Expect(values == expected, "sum");
}

Status DoAnySum(const Turn& turn) {
  Communicator& comm = turn.comm;
  switch (turn.draws.Below(4, kEverybody, 3)) {
    case 0: return DoSum<float, float>(turn, [&](auto values) { return comm.Sum(values); });
    case 1:
      return DoSum<float, double>(
          turn, [&](auto values) { return comm.Sum(values, Accumulation::kFp64); });
    case 2: return DoSum<double, double>(turn, [&](auto values) { return comm.Sum(values); });
    default: return DoSum<int64_t, int64_t>(turn, [&](auto values) { return comm.Sum(values); });
  }
}

Status DoMessages(const Turn& turn) {
  if (turn.size() < 2) return {};
  const auto from = static_cast<size_t>(turn.draws.Below(turn.comm.size(), kEverybody, 4));
  const size_t to = (from + 1) % turn.size();
  const std::vector<std::byte> expected = turn.Message(from, to);
  if (turn.rank() == static_cast<int>(from)) return turn.comm.Send(static_cast<int>(to), expected);
  if (turn.rank() != static_cast<int>(to)) return {};
  std::vector<std::byte> data(expected.size());
  TW_TRY(turn.comm.Receive(static_cast<int>(from), data));
  return turn.Expect(data == expected, "message");
}

// Two movements under way, with a barrier in between, ended in either order.
Status DoOverlapped(const Turn& turn) {
  const auto self = static_cast<size_t>(turn.rank());
  std::vector<std::vector<std::byte>> sent, received;
  for (size_t r = 0; r < turn.size(); ++r) {
    sent.push_back(turn.Message(self, r));
    received.emplace_back(static_cast<size_t>(turn.Bytes(r, self)));
  }
  std::vector<std::vector<std::byte>> again = received;
  std::vector<Outgoing> out;
  std::vector<Incoming> in, in_again;
  for (size_t r = 0; r < turn.size(); ++r) {
    out.push_back({static_cast<int>(r), sent[r]});
    in.push_back({static_cast<int>(r), received[r]});
    in_again.push_back({static_cast<int>(r), again[r]});
  }
  TW_ASSIGN(const Ticket first, turn.comm.Begin({Operation::kExchange, out, in}));
  TW_ASSIGN(const Ticket second, turn.comm.Begin({Operation::kExchange, out, in_again}));
  TW_TRY(turn.comm.Barrier());
  const bool swap = turn.draws.Below(2, static_cast<uint32_t>(self), 5) == 1;
  TW_TRY(turn.comm.Finish(swap ? second : first));
  TW_TRY(turn.comm.Finish(swap ? first : second));
  bool equal = received == again;
  for (size_t r = 0; r < turn.size(); ++r) equal = equal && received[r] == turn.Message(r, self);
  return turn.Expect(equal, "exchange");
}

void Delay(const Turn& turn) {
  if (turn.options.most_delay_us == 0) return;
  const int64_t us =
      turn.draws.Below(turn.options.most_delay_us, static_cast<uint32_t>(turn.rank()), 6);
  // Half of the ranks are late, the others come at once.
  if (us % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

}  // namespace

Status RunProgram(Communicator& communicator, const ProgramOptions& options) {
  constexpr std::array kKinds = {DoBroadcast, DoAllGather, DoAllToAll,
                                 DoAnySum,    DoMessages,  DoOverlapped};
  for (int i = 0; i < options.operations; ++i) {
    const Turn turn{communicator, options, {options.seed, static_cast<uint32_t>(i)}};
    Delay(turn);
    const auto kind = static_cast<size_t>(turn.draws.Below(kKinds.size(), kEverybody, 7));
    TW_TRY(kKinds[kind](turn));
  }
  return {};
}

}  // namespace thalweg::comm
