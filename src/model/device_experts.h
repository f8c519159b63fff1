// Experts over ranks where rows and weights lie on a device: what ExpertParallel works on in host
// memory is brought there and back. One way to run experts of a call alone, with the bits that they
// have among others: the shared expert stands as a routed one of weight 1, and one of zeros in its
// place, whose result adds nothing.
#pragma once

#include <deque>
#include <vector>

#include "kernels/ops.h"
#include "tensor/buffer.h"

namespace thalweg::model {

// Of one model on one device; calls come from one thread.
class DeviceExperts {
 public:
  // The inputs of a call as host memory has them; out: host memory, for StoreOut.
  kernels::ExpertsParams Fetch(const kernels::Ops& ops, const kernels::ExpertsParams& params);
  // What is in the fetched call's out to where the device's call wants it.
  void StoreOut(const kernels::Ops& ops, const kernels::ExpertsParams& params);

  // p in host memory, its weights the device's. Either topk = 1 and no shared expert, or topk = 0
  // and the shared expert alone. `layer` has the same experts in the same places from call to call,
  // as a rule. Waits for p.out.
  void Run(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& p);

  // Where rows stay on the device: the choices alone, and calls whose x and out are the device's.
  // chosen and weights are in host memory, and wanted for topk = 1 alone.
  kernels::ExpertsParams FetchChoices(const kernels::Ops& ops,
                                      const kernels::ExpertsParams& params);
  void RunThere(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& p);
  // The same where chosen and weights are the device's, too. topk = 1: a choice behind the last of
  // the experts is one of zeros. topk = 0: chosen and weights are zeros and ones.
  void RunChosen(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& p);
  // Memory of the device for one purpose; it stays until more is asked for.
  enum Purpose : size_t { kX, kChosen, kWeights, kOut, kPicked, kCame, kReturned, kShared, kCount };
  std::byte* Room(Purpose purpose, int64_t bytes, const kernels::Ops& ops);
  // Returns when everything that was queued is done; lists of the step under way stay.
  void Wait(const kernels::Ops& ops, const tensor::Stream& stream);

 private:
  // Weights of a layer's calls: they stay in place, for a device keeps tables of them.
  struct Layer {
    std::vector<kernels::FeedForward> routed, shared, chosen;
  };
  const kernels::FeedForward& Zero(const kernels::Ops& ops, const kernels::ExpertsParams& p,
                                   const kernels::FeedForward& like);
  std::vector<Layer> layers_;
  // An expert of zeros, in the format of another.
  struct Zeros {
    kernels::FeedForward weights = {};
    tensor::Buffer bytes = {};
  };
  std::deque<Zeros> zeros_;  // they stay where they are
  tensor::Buffer rooms_[kCount];
  std::vector<tensor::BF16> x_, out_;
  std::vector<int32_t> chosen_;
  std::vector<float> weights_;
};

}  // namespace thalweg::model
