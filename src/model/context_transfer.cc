#include "model/context_transfer.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "model/run.h"

namespace thalweg::model {

Transfer::Transfer(comm::Communicator* ranks, parallel::Group group)
    : ranks_(ranks),
      group_(group),
      place_(group.PlaceOf(ranks->rank())),
      out_(static_cast<size_t>(group.size)),
      in_(static_cast<size_t>(group.size)) {}

Status Transfer::Exchange() {
  std::vector<comm::Outgoing> out;
  std::vector<comm::Incoming> in;
  for (int k = 0; k < group_.size; ++k) {
    if (k == place_) continue;
    const auto i = static_cast<size_t>(k);
    out.push_back({group_.first + k, out_[i]});
    in.push_back({group_.first + k, in_[i]});
  }
  return ranks_->Exchange({comm::Operation::kExchange, out, in});
}

int64_t Transfer::bytes_out() const {
  int64_t bytes = 0;
  for (const auto& message : out_) bytes += static_cast<int64_t>(message.size());
  return bytes;
}

RowTransfer::RowTransfer(comm::Communicator* ranks, comm::Communicator* devices,
                         parallel::Group group)
    : ranks_(ranks),
      devices_(devices),
      group_(group),
      place_(group.PlaceOf(ranks->rank())),
      out_(static_cast<size_t>(group.size)),
      in_(static_cast<size_t>(group.size)) {}

void RowTransfer::Start(const tensor::Memory& memory, const tensor::Stream& stream) {
  memory_ = &memory;
  stream_ = stream;
  for (Message& m : out_) m.bytes = 0;
  for (Message& m : in_) m.bytes = 0;
}

std::byte* RowTransfer::Room(Message* message, int64_t bytes) {
  message->bytes = bytes;
  if (bytes > message->room.bytes()) {
    message->room = {};
    message->room = tensor::Buffer(base::RoundUp(bytes + bytes / 4, tensor::kAlignBytes), *memory_);
  }
  if (staged()) message->staged.resize(static_cast<size_t>(bytes));
  return message->room.data();
}

comm::Outgoing RowTransfer::ToSend(int place) {
  const Message& m = out_[static_cast<size_t>(place)];
  const auto bytes = static_cast<size_t>(m.bytes);
  const std::byte* from = staged() ? m.staged.data() : m.room.data();
  return {group_.first + place, {from, bytes}};
}

comm::Incoming RowTransfer::ToCome(int place) {
  Message& m = in_[static_cast<size_t>(place)];
  const auto bytes = static_cast<size_t>(m.bytes);
  return {group_.first + place, {staged() ? m.staged.data() : m.room.data(), bytes}};
}

// What goes away is made, and what comes may be written over: ops that read the rows that came the
// last time are done.
void RowTransfer::MakeReady() {
  if (memory_->host) return;
  if (!staged()) {
    if (mark_.bytes() == 0) mark_ = tensor::Buffer(tensor::kAlignBytes, *memory_);
    int32_t any = 0;
    return memory_->download(stream_, &any, mark_.data(), sizeof(any));
  }
  for (Message& m : out_) memory_->download(stream_, m.staged.data(), m.room.data(), m.bytes);
}

// What came through host memory goes to the device.
void RowTransfer::Land(int begin, int end) {
  if (!staged()) return;
  for (int k = begin; k < end; ++k) {
    Message& m = in_[static_cast<size_t>(k)];
    if (k != place_) memory_->upload(stream_, m.room.data(), m.staged.data(), m.bytes);
  }
}

Status RowTransfer::Begin() {
  MakeReady();
  std::vector<comm::Outgoing> out;
  std::vector<comm::Incoming> earlier, later;
  for (int k = 0; k < group_.size; ++k) {
    if (k == place_) continue;
    out.push_back(ToSend(k));
    (k < place_ ? earlier : later).push_back(ToCome(k));
  }
  TW_ASSIGN(earlier_, Way()->Begin({comm::Operation::kExchange, {}, earlier}));
  TW_ASSIGN(later_, Way()->Begin({comm::Operation::kExchange, out, later}));
  return {};
}

Status RowTransfer::Finish(comm::Ticket* ticket, int begin, int end) {
  const comm::Ticket begun = std::exchange(*ticket, {});
  if (begun.slot < 0) return {};
  TW_TRY(Way()->Finish(begun));
  Land(begin, end);
  return {};
}

Status RowTransfer::FinishEarlier() { return Finish(&earlier_, 0, place_); }
Status RowTransfer::FinishLater() { return Finish(&later_, place_ + 1, group_.size); }

Status RowTransfer::Exchange() {
  MakeReady();
  std::vector<comm::Outgoing> out;
  std::vector<comm::Incoming> in;
  for (int k = 0; k < group_.size; ++k) {
    if (k == place_) continue;
    out.push_back(ToSend(k));
    in.push_back(ToCome(k));
  }
  TW_TRY(Way()->Exchange({comm::Operation::kExchange, out, in}));
  Land(0, group_.size);
  return {};
}

int64_t RowTransfer::bytes_out() const {
  int64_t bytes = 0;
  for (const Message& m : out_) bytes += m.bytes;
  return bytes;
}

void RowCopies::Add(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  auto same = std::find_if(all_.begin(), all_.end(),
                           [bytes](const OfLength& rows) { return rows.bytes == bytes; });
  if (same == all_.end()) same = all_.insert(all_.end(), {.bytes = bytes});
  same->from.push_back(from);
  same->to.push_back(to);
}

// Copies of a device may run beside what ops before hold back, and products before them: rows of
// rings are all that the model copies elsewhere. A copy of its memory stands where it is asked for.
void RowCopies::Settle(const Run& run) {
  if (run.memory().host) return;
  if (mark_.bytes() == 0) mark_ = tensor::Buffer(2 * tensor::kAlignBytes, run.memory());
  run.memory().copy(run.stream(), mark_.data() + tensor::kAlignBytes, mark_.data(), 4);
}

void RowCopies::Copy(const Run& run) {
  if (all_.empty()) return;
  Settle(run);
  for (const OfLength& rows : all_)
    run.ops().copy_rows({.stream = run.stream(),
                         .count = static_cast<int64_t>(rows.from.size()),
                         .bytes = rows.bytes,
                         .from = rows.from.data(),
                         .to = rows.to.data()});
  Settle(run);
  all_.clear();
}

}  // namespace thalweg::model
