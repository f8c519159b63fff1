#include "comm/thread_group.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/check.h"

namespace thalweg::comm {
namespace {

// A message from its sender's buffer. full: the receiver may take it; taken: it copies; done: the
// sender has its buffer back.
enum class Parcel : uint32_t { kEmpty, kFull, kTaken, kDone };

struct Place {
  std::atomic<Parcel> state = Parcel::kEmpty;
  uint64_t number = 0;  // of the channel's messages
  Operation operation = Operation::kNone;
  std::span<const std::byte> bytes;
};

// Messages from one rank to another. As many places as movements can be under way.
struct alignas(64) Channel {
  std::array<Place, kMostPending> places;

  Place& Empty() {
    for (Place& place : places)
      if (place.state.load(std::memory_order_relaxed) == Parcel::kEmpty) return place;
    base::CheckFailed(__FILE__, __LINE__, "a free place", {});
  }
  Place* Full(uint64_t number) {
    for (Place& place : places)
      if (place.state.load(std::memory_order_acquire) == Parcel::kFull && place.number == number)
        return &place;
    return nullptr;
  }
};

struct Words {
  std::mutex mutex;
  Pulse pulse;
};

}  // namespace

struct ThreadGroup::Shared {
  Shared(int ranks, Limits most)
      : size(ranks),
        limits(most),
        channels(static_cast<size_t>(ranks) * static_cast<size_t>(ranks)),
        words(static_cast<size_t>(ranks)),
        joined(static_cast<size_t>(ranks)) {
    limits.silence = Milliseconds(0);
  }
  Channel& channel(int from, int to) {
    return channels[static_cast<size_t>(from) * static_cast<size_t>(size) +
                    static_cast<size_t>(to)];
  }

  int size;
  Limits limits;
  std::vector<Channel> channels;
  std::vector<Words> words;  // by rank: what it said last
  std::vector<std::atomic<bool>> joined;
};

namespace {

class ThreadRank final : public Communicator {
 public:
  ThreadRank(std::shared_ptr<ThreadGroup::Shared> shared, int rank)
      : Communicator(rank, shared->size, shared->limits),
        shared_(std::move(shared)),
        sent_(static_cast<size_t>(size())),
        expected_(static_cast<size_t>(size())) {}
  ~ThreadRank() override { Leave(); }

 protected:
  Status Post(int slot, const Movement& movement) override {
    UnderWay& under_way = slots_[static_cast<size_t>(slot)];
    under_way.operation = movement.operation;
    for (const Outgoing& message : movement.out) under_way.out.push_back(Put(message, movement));
    for (const Incoming& message : movement.in)
      under_way.in.push_back({message, expected_[static_cast<size_t>(message.from)]++});
    return {};
  }

  // All that is under way goes on: ranks may end their movements in different orders.
  Result<bool> Poll(int slot) override {
    for (UnderWay& under_way : slots_) {
      if (!under_way.in.empty()) TW_TRY(TakeWhatCame(&under_way));
      std::erase_if(under_way.out, [](const Sent& sent) { return TakeBack(sent); });
    }
    const UnderWay& under_way = slots_[static_cast<size_t>(slot)];
    return under_way.in.empty() && under_way.out.empty();
  }

  int WaitsFor(int slot) override {
    const UnderWay& under_way = slots_[static_cast<size_t>(slot)];
    if (!under_way.in.empty()) return under_way.in.front().message.from;
    return under_way.out.empty() ? -1 : under_way.out.front().to;
  }

  // A message that its receiver is copying is waited for: a copy ends.
  void Abandon(int slot) override {
    UnderWay& under_way = slots_[static_cast<size_t>(slot)];
    for (const Sent& sent : under_way.out) {
      Parcel full = Parcel::kFull;
      if (sent.place->state.compare_exchange_strong(full, Parcel::kEmpty)) continue;
      while (!TakeBack(sent)) std::this_thread::yield();
    }
    under_way.out.clear();
    under_way.in.clear();
  }

  void Say(const Pulse& pulse) override {
    Words& words = shared_->words[static_cast<size_t>(rank())];
    const std::lock_guard lock(words.mutex);
    words.pulse = pulse;
  }

  void Hear(Liveness* liveness, Clock::time_point now) override {
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      Words& words = shared_->words[static_cast<size_t>(r)];
      const std::lock_guard lock(words.mutex);
      liveness->Heard(r, words.pulse, now);
    }
  }

 private:
  struct Sent {
    int to;
    Place* place;
  };
  struct Expected {
    Incoming message;
    uint64_t number;
  };
  struct UnderWay {
    Operation operation = Operation::kNone;
    std::vector<Sent> out;
    std::vector<Expected> in;
  };

  Sent Put(const Outgoing& message, const Movement& movement) {
    Place& place = shared_->channel(rank(), message.to).Empty();
    place.number = sent_[static_cast<size_t>(message.to)]++;
    place.operation = movement.operation;
    place.bytes = message.bytes;
    place.state.store(Parcel::kFull, std::memory_order_release);
    return {message.to, &place};
  }

  static bool TakeBack(const Sent& sent) {
    Parcel done = Parcel::kDone;
    return sent.place->state.compare_exchange_strong(done, Parcel::kEmpty,
                                                     std::memory_order_acq_rel);
  }

  Status TakeWhatCame(UnderWay* under_way) {
    Status status;
    std::erase_if(under_way->in, [&](const Expected& expected) {
      Place* place = shared_->channel(expected.message.from, rank()).Full(expected.number);
      if (place == nullptr || !status.ok()) return false;
      status = Agrees(*place, expected.message, under_way->operation);
      return status.ok() && Take(place, expected.message.bytes);
    });
    return status;
  }

  Status Agrees(const Place& place, const Incoming& message, Operation operation) const {
    if (place.operation != operation)
      return base::Internal(fmt::format("rank {} does a {} where rank {} does a {}", message.from,
                                        NameOf(place.operation), rank(), NameOf(operation)));
    if (place.bytes.size() != message.bytes.size())
      return base::Internal(fmt::format("rank {} sends {} bytes where rank {} expects {}",
                                        message.from, place.bytes.size(), rank(),
                                        message.bytes.size()));
    return {};
  }

  // False when the sender has taken it back.
  static bool Take(Place* place, std::span<std::byte> to) {
    const std::span<const std::byte> from = place->bytes;
    Parcel full = Parcel::kFull;
    if (!place->state.compare_exchange_strong(full, Parcel::kTaken, std::memory_order_acq_rel))
      return false;
    std::memcpy(to.data(), from.data(), to.size());
    place->state.store(Parcel::kDone, std::memory_order_release);
    return true;
  }

  std::shared_ptr<ThreadGroup::Shared> shared_;
  std::array<UnderWay, kMostPending> slots_;
  std::vector<uint64_t> sent_, expected_;  // messages by rank
};

}  // namespace

ThreadGroup::ThreadGroup(int size, Limits limits)
    : shared_(std::make_shared<Shared>(size, limits)) {}
ThreadGroup::~ThreadGroup() = default;

std::unique_ptr<Communicator> ThreadGroup::Join(int rank) {
  TW_CHECK(rank >= 0 && rank < shared_->size);
  TW_CHECK(!shared_->joined[static_cast<size_t>(rank)].exchange(true));
  return std::make_unique<ThreadRank>(shared_, rank);
}

}  // namespace thalweg::comm
