// Experts of a step of few rows over ranks that are devices, with nothing in it that the host has
// to know or to wait for (kernels/routed_exchange.h): every rank gets the rows of all, computes
// what its experts have to do with them, and gives each rank back the results of its rows. Messages
// have the length of the capacity that ranks agreed on before the step, whatever was chosen.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "kernels/routed_exchange.h"
#include "model/device_experts.h"
#include "parallel/placement.h"
#include "parallel/statistics.h"
#include "tensor/buffer.h"

namespace thalweg::model {

// Rows of all ranks together, padding included, in such a step: what the messages have room for.
inline constexpr int64_t kMostRoutedRows = 512;

// Bytes of the device for it.
int64_t RoutedBytes(int64_t hidden, int64_t topk);

class RoutedExperts {
 public:
  // The group outlives this. exchange: null: as the backend has it.
  RoutedExperts(comm::Communicator* devices, const kernels::RoutedExchange* exchange)
      : devices_(devices), exchange_(exchange) {}

  void Allow(bool allowed) { allowed_ = allowed; }
  bool Can(const kernels::Ops& ops) const;
  // A step in which each rank has up to `capacity` rows; 0: a step of another kind.
  void Begin(int64_t capacity) { capacity_ = capacity; }
  // Whether the host waits for each message of the step. The first of a kind brings kernels to the
  // device, which may take a lock of the process until the device is done: it must not wait for
  // what another rank of the process, at the lock, is to send. Not while a recording is made.
  void SetSettles(bool settles) { settles_ = settles; }
  int64_t capacity() const { return capacity_; }
  // (list) how many of this rank's rows are no padding.
  void SetLive(const int32_t* live) { live_ = live; }

  // The experts of one layer in the place of a placement's.
  struct Layer {
    int number = 0;
    const parallel::PlacementShape* shape = nullptr;
    const parallel::ReplicaTable* table = nullptr;
    std::span<const kernels::FeedForward> local;  // by slot of this rank
    int64_t layers = 0;                           // of the placement
  };
  // In place of ops.experts(p). An error is one of this device or the group.
  Status Mix(const Layer& layer, const kernels::Ops& ops, const kernels::ExpertsParams& p,
             DeviceExperts* device);

  // The layer's experts lie elsewhere from now on.
  void Forget(int layer);
  void ForgetAll() { known_.clear(); }
  // Adds rows by layer and expert since the last call, which the device has counted.
  void TakeCounts(parallel::ExpertCounts* counts);

 private:
  enum Purpose : size_t {
    kOffer,
    kCame,
    kX,
    kResults,
    kReturned,
    kShared,
    kChosen,
    kWeights,
    kHolder,
    kFirst,
    kOne,
    kPurposes
  };
  template <typename T>
  T* Room(Purpose purpose) {
    return reinterpret_cast<T*>(rooms_[purpose].data());
  }
  const kernels::RoutedExchange& Exchange(const kernels::Ops& ops) const;
  void Prepare(const Layer& layer, const kernels::Ops& ops, const kernels::ExpertsParams& p);
  void MakeRooms(const kernels::Ops& ops, const kernels::ExpertsParams& p);
  void SendTable(const Layer& layer, const kernels::Ops& ops, const tensor::Stream& stream);
  const int32_t* TableOf(const Layer& layer) const;
  void Offer(const Layer& layer, const kernels::Ops& ops, const kernels::ExpertsParams& p);
  void Route(const Layer& layer, const kernels::Ops& ops, const kernels::ExpertsParams& p);
  void RunShared(const Layer& layer, const kernels::Ops& ops, const kernels::ExpertsParams& p,
                 DeviceExperts* device);
  void RunRouted(const Layer& layer, const kernels::Ops& ops, const kernels::ExpertsParams& p,
                 DeviceExperts* device);
  // Equal parts between this rank and each other, out of and into such parts of two buffers;
  // `each`: whether all of them get the same one.
  Status Send(const kernels::Ops& ops, const kernels::ExpertsParams& p, std::byte* out,
              std::byte* in, int64_t bytes, bool each, DeviceExperts* device);
  Status Settle(const kernels::Ops& ops, const kernels::ExpertsParams& p);
  Status Arrive(const kernels::Ops& ops, const kernels::ExpertsParams& p);

  comm::Communicator* devices_;
  const kernels::RoutedExchange* exchange_;
  int64_t capacity_ = 0;
  bool settles_ = false, allowed_ = true;
  const int32_t* live_ = nullptr;
  kernels::OfferShape shape_;  // of the layer under way
  tensor::Buffer rooms_[kPurposes];
  tensor::Buffer tables_, counts_;
  std::vector<uint8_t> known_;  // by layer: whether the device has its table
  // Where the group does not queue.
  comm::Ticket ticket_;
  const kernels::Ops* counted_by_ = nullptr;
  tensor::Stream stream_;
};

}  // namespace thalweg::model
