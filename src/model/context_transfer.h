// Bytes between the ranks of a group, of lengths that both sides know. What earlier ranks send can
// be waited for alone: a rank needs it in the middle of a layer, and what later ones send not
// before the next. Internal to the room.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "parallel/mesh.h"

namespace thalweg::model {

class Transfer {
 public:
  Transfer(comm::Communicator* ranks, parallel::Group group);

  // Before Begin, and when nothing is under way: what goes to a place of the group, and how much
  // comes from it.
  std::vector<std::byte>& out(int place) { return out_[static_cast<size_t>(place)]; }
  void Expect(int place, int64_t bytes) {
    in_[static_cast<size_t>(place)].resize(static_cast<size_t>(bytes));
  }
  Status Begin();
  // What earlier places sent is there.
  Status FinishEarlier();
  // What later places sent is there, and what was sent may change.
  Status FinishLater();
  const std::vector<std::byte>& in(int place) const { return in_[static_cast<size_t>(place)]; }
  int64_t bytes_out() const;

 private:
  Status Finish(comm::Ticket* ticket);

  comm::Communicator* ranks_;
  parallel::Group group_;
  int place_;
  std::vector<std::vector<std::byte>> out_, in_;
  comm::Ticket earlier_ = {}, later_ = {};
};

}  // namespace thalweg::model
