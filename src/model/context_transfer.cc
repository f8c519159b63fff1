#include "model/context_transfer.h"

#include <utility>

namespace thalweg::model {

Transfer::Transfer(comm::Communicator* ranks, parallel::Group group)
    : ranks_(ranks),
      group_(group),
      place_(group.PlaceOf(ranks->rank())),
      out_(static_cast<size_t>(group.size)),
      in_(static_cast<size_t>(group.size)) {}

Status Transfer::Begin() {
  std::vector<comm::Outgoing> out;
  std::vector<comm::Incoming> earlier, later;
  for (int k = 0; k < group_.size; ++k) {
    if (k == place_) continue;
    const auto i = static_cast<size_t>(k);
    out.push_back({group_.first + k, out_[i]});
    (k < place_ ? earlier : later).push_back({group_.first + k, in_[i]});
  }
  TW_ASSIGN(earlier_, ranks_->Begin({comm::Operation::kExchange, {}, earlier}));
  TW_ASSIGN(later_, ranks_->Begin({comm::Operation::kExchange, out, later}));
  return {};
}

Status Transfer::Finish(comm::Ticket* ticket) {
  const comm::Ticket begun = std::exchange(*ticket, {});
  return begun.slot >= 0 ? ranks_->Finish(begun) : Status();
}

Status Transfer::FinishEarlier() { return Finish(&earlier_); }
Status Transfer::FinishLater() { return Finish(&later_); }

int64_t Transfer::bytes_out() const {
  int64_t bytes = 0;
  for (const auto& message : out_) bytes += static_cast<int64_t>(message.size());
  return bytes;
}

}  // namespace thalweg::model
