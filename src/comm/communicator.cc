#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/backoff.h"

namespace thalweg::comm {

Communicator::Communicator(int rank, int size, Limits limits)
    : rank_(rank), size_(size), limits_(limits), liveness_(rank, size, limits, Clock::now()) {
  TW_CHECK_GT(size, 0);
  TW_CHECK_LE(size, kMaxRanks);
  TW_CHECK_LT(rank, size);
  TW_CHECK_GE(rank, 0);
  out_.reserve(static_cast<size_t>(size));
  in_.reserve(static_cast<size_t>(size));
}

Status Communicator::Exchange(const Movement& movement) {
  return Move(movement.operation, movement.out, movement.in);
}

Status Communicator::Move(Operation operation, std::span<const Outgoing> out,
                          std::span<const Incoming> in, std::optional<Milliseconds> patience) {
  TW_ASSIGN(const Ticket ticket, Begin({operation, out, in}));
  return Finish(ticket, patience);
}

Result<Ticket> Communicator::Begin(const Movement& movement) {
  TW_TRY(Broken());
  CheckMovement(movement);
  Sort(movement);
  {
    const std::lock_guard lock(mutex_);
    ++pulse_.number;
    pulse_.operation = movement.operation;
  }
  const int slot = TakeSlot();
  if (Status status = Post(slot, {movement.operation, out_, in_}); !status.ok())
    return BreakWith(status);
  return Ticket{slot};
}

Status Communicator::Finish(Ticket ticket, std::optional<Milliseconds> patience) {
  TW_CHECK(ticket.slot >= 0 && taken_[static_cast<size_t>(ticket.slot)]);
  taken_[static_cast<size_t>(ticket.slot)] = false;
  Status status = Broken();
  if (status.ok()) status = Wait(ticket.slot, {Clock::now(), patience.value_or(limits_.patience)});
  if (!status.ok()) AbandonAll();
  return status;
}

Status Communicator::Enqueue(const Movement& /*movement*/, void* /*queue*/) {
  return base::Unsupported("this group has no queue");
}

Status Communicator::Join(void* /*queue*/) { return base::Unsupported("this group has no queue"); }

Status Communicator::Await(const std::function<bool()>& /*done*/) {
  return base::Unsupported("this group has no queue");
}

int Communicator::TakeSlot() {
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  TW_CHECK(free != taken_.end());
  *free = true;
  return static_cast<int>(free - taken_.begin());
}

void Communicator::CheckMovement(const Movement& movement) const {
  for (size_t i = 0; i < movement.out.size(); ++i) {
    TW_CHECK(movement.out[i].to >= 0 && movement.out[i].to < size_);
    for (size_t j = 0; j < i; ++j) TW_DCHECK(movement.out[i].to != movement.out[j].to);
  }
  for (size_t i = 0; i < movement.in.size(); ++i) {
    TW_CHECK(movement.in[i].from >= 0 && movement.in[i].from < size_);
    for (size_t j = 0; j < i; ++j) TW_DCHECK(movement.in[i].from != movement.in[j].from);
  }
}

// What goes to other ranks; what goes to this one is copied at once.
void Communicator::Sort(const Movement& movement) {
  out_.clear();
  in_.clear();
  std::span<const std::byte> to_self;
  std::span<std::byte> from_self;
  for (const Outgoing& message : movement.out) {
    if (message.to == rank_)
      to_self = message.bytes;
    else if (!message.bytes.empty())
      out_.push_back(message);
  }
  for (const Incoming& message : movement.in) {
    if (message.from == rank_)
      from_self = message.bytes;
    else if (!message.bytes.empty())
      in_.push_back(message);
  }
  TW_CHECK_EQ(to_self.size(), from_self.size());
  if (!to_self.empty()) CopyToSelf(from_self, to_self);
}

void Communicator::CopyToSelf(std::span<std::byte> to, std::span<const std::byte> from) {
  std::memmove(to.data(), from.data(), from.size());
}

Status Communicator::Wait(int slot, Patience patience) {
  Backoff backoff(patience.began);
  bool looked = false;
  while (true) {
    const Result<bool> done = Poll(slot);
    if (!done.ok()) return BreakWith(done.status());
    if (*done) break;
    const Clock::time_point now = Clock::now();
    if (backoff.TimeToLook(now)) {
      TW_TRY(Look(slot, patience));
      looked = true;
    }
    backoff.Pause(now);
  }
  if (looked) SayWell(-1);
  return {};
}

Status Communicator::Look(int slot, Patience patience) {
  const int waits_for = WaitsFor(slot);
  SayWell(waits_for);
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  TW_TRY(ListenLocked(waits_for, now));
  if (waits_for < 0 || now - patience.began <= patience.most) return {};
  return BreakLocked(liveness_.Blame(waits_for, now - patience.began, now));
}

Status Communicator::ListenLocked(int waits_for, Clock::time_point now) {
  if (!broken_.ok()) return broken_;
  Hear(&liveness_, now);
  liveness_.LookAround(now);
  if (const auto loss = liveness_.Judge(waits_for, now)) return BreakLocked(*loss);
  return {};
}

Status Communicator::BreakLocked(const Loss& loss) {
  broken_ = base::IoError(fmt::format("{} (operation {} of rank {}): {}", NameOf(pulse_.operation),
                                      pulse_.number, rank_, loss.reason));
  if (!loss.told) {
    pulse_.health = Health::kLostRank;
    pulse_.rank = loss.rank;
    pulse_.Write(loss.reason);
    Say(pulse_);
  }
  return broken_;
}

Status Communicator::BreakWith(const Status& status) {
  Fail(status.WithContext(NameOf(pulse_.operation)));
  return Broken();
}

Status Communicator::Broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

// Others need to hear whom it waits for, and that it lives, not every look.
void Communicator::SayWell(int waits_for) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (pulse_.health != Health::kWell) return;
  if (pulse_.rank == waits_for && now - said_ < limits_.period) return;
  pulse_.rank = waits_for;
  said_ = now;
  Say(pulse_);
}

void Communicator::AbandonAll() {
  for (int slot = 0; slot < kMostPending; ++slot) Abandon(slot);
}

void Communicator::Fail(const Status& reason) {
  TW_CHECK(!reason.ok());
  AbandonAll();
  const std::lock_guard lock(mutex_);
  if (!broken_.ok()) return;
  broken_ = reason;
  pulse_.health = Health::kFailed;
  pulse_.Write(reason.ToString());
  Say(pulse_);
}

void Communicator::Leave() {
  AbandonAll();
  const std::lock_guard lock(mutex_);
  if (pulse_.health != Health::kWell) return;
  pulse_.health = Health::kLeft;
  Say(pulse_);
}

void Communicator::Beat() {
  const std::lock_guard lock(mutex_);
  if (pulse_.health != Health::kWell) return;
  Say(pulse_);
  static_cast<void>(ListenLocked(-1, Clock::now()));
}

Status Communicator::Check() {
  const std::lock_guard lock(mutex_);
  return ListenLocked(-1, Clock::now());
}

}  // namespace thalweg::comm
