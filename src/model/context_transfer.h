// Bytes between the ranks of a group, of lengths that both sides know. What earlier ranks send can
// be waited for alone: a rank needs it in the middle of a layer, and what later ones send not
// before the next. Internal to the room.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "parallel/mesh.h"
#include "tensor/buffer.h"
#include "tensor/memory.h"

namespace thalweg::model {

struct Run;

// Of host memory: what ranks say before and behind the layers.
class Transfer {
 public:
  Transfer(comm::Communicator* ranks, parallel::Group group);

  // Before Begin, and when nothing is under way: what goes to a place of the group, and how much
  // comes from it.
  std::vector<std::byte>& out(int place) { return out_[static_cast<size_t>(place)]; }
  void Expect(int place, int64_t bytes) {
    in_[static_cast<size_t>(place)].resize(static_cast<size_t>(bytes));
  }
  Status Exchange();
  const std::vector<std::byte>& in(int place) const { return in_[static_cast<size_t>(place)]; }
  int64_t bytes_out() const;

 private:
  comm::Communicator* ranks_;
  parallel::Group group_;
  int place_;
  std::vector<std::vector<std::byte>> out_, in_;
};

// The same of rows where the backend has them. Those of a device travel from device to device, or
// through host memory where the ranks are no devices to one another. It keeps its rooms from step
// to step.
class RowTransfer {
 public:
  // devices: the same ranks; null: none.
  RowTransfer(comm::Communicator* ranks, comm::Communicator* devices, parallel::Group group);

  // Rows of a step lie there, and are written in the order of the stream. When nothing is under
  // way.
  void Start(const tensor::Memory& memory, const tensor::Stream& stream);
  // Room for what goes to a place, and for what comes from it, until the next Start of a message to
  // or from it.
  std::byte* Out(int place, int64_t bytes) {
    return Room(&out_[static_cast<size_t>(place)], bytes);
  }
  void Expect(int place, int64_t bytes) { Room(&in_[static_cast<size_t>(place)], bytes); }
  const std::byte* in(int place) const { return in_[static_cast<size_t>(place)].room.data(); }
  int64_t bytes_out() const;

  Status Begin();
  // What earlier places sent is there.
  Status FinishEarlier();
  // What later places sent is there, and what was sent may change.
  Status FinishLater();
  // All of it at once.
  Status Exchange();

 private:
  struct Message {
    tensor::Buffer room;
    int64_t bytes = 0;
    std::vector<std::byte> staged;  // of a device, on its way through host memory
  };
  std::byte* Room(Message* message, int64_t bytes);
  bool staged() const { return !memory_->host && devices_ == nullptr; }
  comm::Communicator* Way() const { return memory_->host || staged() ? ranks_ : devices_; }
  void MakeReady();
  void Land(int begin, int end);
  comm::Outgoing ToSend(int place);
  comm::Incoming ToCome(int place);
  Status Finish(comm::Ticket* ticket, int begin, int end);

  comm::Communicator* ranks_;
  comm::Communicator* devices_;
  parallel::Group group_;
  int place_;
  const tensor::Memory* memory_ = &tensor::HostMemory();
  tensor::Stream stream_ = {};
  tensor::Buffer mark_;  // of a device: what it is waited for with
  std::vector<Message> out_, in_;
  comm::Ticket earlier_ = {}, later_ = {};
};

// Rows that are copied together, by their lengths.
class RowCopies {
 public:
  void Add(void* to, const void* from, int64_t bytes);
  // Behind all ops before, and in front of all that come; none is left afterwards. No destination
  // overlaps another or a source.
  void Copy(const Run& run);

 private:
  struct OfLength {
    int64_t bytes = 0;
    std::vector<const void*> from = {};
    std::vector<void*> to = {};
  };
  void Settle(const Run& run);

  std::vector<OfLength> all_;
  tensor::Buffer mark_;
};

}  // namespace thalweg::model
