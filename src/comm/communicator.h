// A group of ranks and what they say to one another (spec/decoding.md 7.6). Operations are the same
// for every body (threads of one process, MPI, NCCL), in a fixed order, and end: with the data, or
// with an error that names the rank that failed, died, was stopped or did not come
// (docs/contracts/comm.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "comm/limits.h"
#include "comm/liveness.h"
#include "comm/pulse.h"

namespace thalweg::comm {

struct Outgoing {
  int to = 0;
  std::span<const std::byte> bytes = {};
};

struct Incoming {
  int from = 0;
  std::span<std::byte> bytes = {};
};

// Messages that travel together. At most one for each rank and direction; a rank may write to
// itself. What one side sends is as long as what the other side expects.
struct Movement {
  Operation operation = Operation::kExchange;
  std::span<const Outgoing> out = {};
  std::span<const Incoming> in = {};
};

// A movement under way. Its buffers, but not its spans of messages, stay until Finish.
struct Ticket {
  int slot = -1;
};

enum class Accumulation { kFp32, kFp64 };

// One rank's end. Every rank of the group calls the same collective operations in the same order,
// from one thread at a time. After the first error each operation returns that error at once.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Limits& limits() const { return limits_; }
  // Where messages lie: false for NCCL, whose buffers are the device's.
  virtual bool on_host() const { return true; }

  // Collectives. Buffers belong to the caller; lengths in bytes.

  // data of `root` to everybody.
  Status Broadcast(int root, std::span<std::byte> data);
  // bytes[r] of each rank r, in the order of ranks. all.size() is their sum.
  Status AllGather(std::span<const std::byte> mine, std::span<const int64_t> bytes,
                   std::span<std::byte> all);
  // The same where every rank has mine.size() bytes.
  Status AllGather(std::span<const std::byte> mine, std::span<std::byte> all);
  // out: for rank 0 first, out_bytes[r] for each rank r; in: likewise, by source.
  Status AllToAll(std::span<const std::byte> out, std::span<const int64_t> out_bytes,
                  std::span<std::byte> in, std::span<const int64_t> in_bytes);
  // values of all ranks added up element by element, for everybody: ((r0 + r1) + r2) + ..., in this
  // order whatever the length. kFp64 rounds once, at the end. Host memory only.
  Status Sum(std::span<float> values, Accumulation accumulation = Accumulation::kFp32);
  Status Sum(std::span<double> values);
  Status Sum(std::span<int64_t> values);  // wraps
  // Host memory only.
  Status Barrier(std::optional<Milliseconds> patience = std::nullopt);

  // Between two ranks, or any of them.
  Status Send(int to, std::span<const std::byte> bytes);
  Status Receive(int from, std::span<std::byte> bytes);
  Status Exchange(const Movement& movement);
  // The same in two parts, with work between them. At most kMostPending at a time.
  Result<Ticket> Begin(const Movement& movement);
  Status Finish(Ticket ticket, std::optional<Milliseconds> patience = std::nullopt);

  // Of bodies that move device memory in the order of a device's own queue (NCCL): movements that
  // the host does not wait for. All ranks queue the same ones in the same order.
  virtual bool queues() const { return false; }
  // Begins the movement behind all that is on `queue`, a handle of the device, and beside what
  // comes there next, up to Join. One at a time. Both may be recorded in a graph, by all ranks or
  // by none. No messages of a rank to itself. An error is one of this device.
  virtual Status Enqueue(const Movement& movement, void* queue);
  virtual Status Join(void* queue);
  // Returns when done() says that what was queued is done; or when it will not be, with the error
  // that says why: then DropQueued, as soon as no graph holds what was queued.
  virtual Status Await(const std::function<bool()>& done);
  // Ends what is queued, wherever it is; nothing can be queued any more.
  virtual void DropQueued() {}

  // Tells the others that this rank gives up; their next operation returns an error with this
  // reason, and so does this rank's. Called by the thread that calls operations.
  void Fail(const Status& reason);
  // Says that this rank lives, and listens. To be called every limits().period by a thread that was
  // handed in from above (BeatUntil), so that a rank that computes for long is not given up.
  void Beat();
  // ok, or why the group cannot go on, as far as this rank has heard.
  Status Check();

 protected:
  Communicator(int rank, int size, Limits limits);
  // Says that this rank has left, and abandons what is under way; for destructors of bodies.
  void Leave();

  // A message to itself: `to` and `from` are of one length and may be one.
  virtual void CopyToSelf(std::span<std::byte> to, std::span<const std::byte> from);
  // Begins a movement; messages of zero bytes and to itself are left out already.
  virtual Status Post(int slot, const Movement& movement) = 0;
  // Whether the movement is done.
  virtual Result<bool> Poll(int slot) = 0;
  // A rank that the movement still waits for; -1 when there is none.
  virtual int WaitsFor(int slot) = 0;
  // Nobody may touch the buffers of the movement after this, if there is one.
  virtual void Abandon(int slot) = 0;
  // Tells all the others without waiting.
  virtual void Say(const Pulse& pulse) = 0;
  // What others have said since: calls liveness->Heard.
  virtual void Hear(Liveness* liveness, Clock::time_point now) = 0;

 private:
  struct Patience {
    Clock::time_point began;
    Clock::duration most;
  };
  Status Move(Operation operation, std::span<const Outgoing> out, std::span<const Incoming> in,
              std::optional<Milliseconds> patience = std::nullopt);
  int TakeSlot();
  void AbandonAll();
  void Sort(const Movement& movement);
  void CheckMovement(const Movement& movement) const;
  Status Wait(int slot, Patience patience);
  Status Look(int slot, Patience patience);
  Status ListenLocked(int waits_for, Clock::time_point now);
  Status BreakLocked(const Loss& loss);
  Status BreakWith(const Status& status);
  Status Broken() const;
  void SayWell(int waits_for);
  template <typename T, typename Wide>
  Status SumAs(std::span<T> values);
  template <typename T, typename Wide>
  Status SumWhole(std::span<T> values);
  template <typename T, typename Wide>
  Status SumPieces(std::span<T> values);

  const int rank_;
  const int size_;
  const Limits limits_;
  std::array<bool, kMostPending> taken_ = {};
  std::vector<Outgoing> out_;  // of the movement being posted
  std::vector<Incoming> in_;

  mutable std::mutex mutex_;  // of what Beat shares with the operations
  Pulse pulse_;
  Clock::time_point said_ = {};
  Liveness liveness_;
  Status broken_;
};

// The bytes of values.
template <typename T>
std::span<const std::byte> BytesOf(std::span<const T> values) {
  return std::as_bytes(values);
}
template <typename T>
std::span<std::byte> BytesOf(std::span<T> values) {
  return std::as_writable_bytes(values);
}

}  // namespace thalweg::comm
