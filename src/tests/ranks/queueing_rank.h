// A rank whose movements are queued, as those of NCCL are, where a queue's work is done at once: a
// device that is pretended. It moves by the group that it stands before.
#pragma once

#include <utility>

#include "comm/communicator.h"

namespace thalweg::tests {

class QueueingRank final : public comm::Communicator {
 public:
  explicit QueueingRank(comm::Communicator* group)
      : Communicator(group->rank(), group->size(), {.silence = comm::Milliseconds(0)}),
        group_(*group) {}

  bool queues() const override { return true; }
  Status Enqueue(const comm::Movement& movement, void* /*queue*/) override {
    TW_ASSIGN(ticket_, group_.Begin(movement));
    return {};
  }
  Status Join(void* /*queue*/) override {
    const comm::Ticket ticket = std::exchange(ticket_, {});
    return ticket.slot < 0 ? Status() : group_.Finish(ticket);
  }
  Status Await(const std::function<bool()>& done) override {
    while (!done()) TW_TRY(group_.Check());
    ++awaited_;
    return {};
  }
  int64_t awaited() const { return awaited_; }

 protected:
  Status Post(int slot, const comm::Movement& movement) override {
    TW_ASSIGN(posted_[static_cast<size_t>(slot)], group_.Begin(movement));
    return {};
  }
  Result<bool> Poll(int slot) override {
    TW_TRY(group_.Finish(posted_[static_cast<size_t>(slot)]));
    return true;
  }
  int WaitsFor(int /*slot*/) override { return -1; }
  void Abandon(int /*slot*/) override {}
  void Say(const comm::Pulse& /*pulse*/) override {}
  void Hear(comm::Liveness* liveness, comm::Clock::time_point now) override {
    for (int r = 0; r < size(); ++r) liveness->Heard(r, {}, now);
  }

 private:
  comm::Communicator& group_;
  comm::Ticket ticket_;
  std::array<comm::Ticket, comm::kMostPending> posted_ = {};
  int64_t awaited_ = 0;
};

}  // namespace thalweg::tests
