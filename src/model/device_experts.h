// Experts over ranks where rows and weights lie on a device: what ExpertParallel works on in host
// memory is brought there and back. One way to run experts of a call alone, with the bits that they
// have among others: the shared expert stands as a routed one of weight 1, and one of zeros in its
// place, whose result adds nothing.
#pragma once

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

 private:
  // Weights of a layer's calls: they stay in place, for a device keeps tables of them.
  struct Layer {
    std::vector<kernels::FeedForward> routed, shared;
  };
  const kernels::FeedForward& Zero(const kernels::Ops& ops, const kernels::ExpertsParams& p,
                                   const kernels::FeedForward& like);
  void* Room(size_t which, int64_t bytes, const kernels::Ops& ops);

  std::vector<Layer> layers_;
  kernels::FeedForward zero_ = {};
  tensor::Buffer zero_bytes_;
  tensor::Buffer rooms_[4];
  std::vector<tensor::BF16> x_, out_;
  std::vector<int32_t> chosen_, ones_;
  std::vector<float> weights_;
};

}  // namespace thalweg::model
