// What a step gives the host: logits, and tokens that a device chose. On a device they lie in its
// memory until the step is done, and in pinned memory of the host then; a few steps may be under
// way.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "model/model.h"
#include "tensor/buffer.h"
#include "tensor/pinned.h"

namespace thalweg::model {

class StepResults {
 public:
  StepResults(const ModelOptions& options, int64_t vocab, const tensor::Stream& stream);

  // Room for logits of `rows` rows that ops write: of few rows always the same place on a device;
  // on the host `host`, made as large.
  float* TakeLogits(int64_t rows, std::vector<float>* host);
  // Waits until the host has them.
  void FetchLogits(std::vector<float>* host) const;

  // Of a device: the newest token of each slot, and the chosen one of each row.
  int32_t* newest() { return newest_.as<int32_t>(); }
  int32_t* chosen() { return chosen_.as<int32_t>(); }

  // The step just queued, of few rows: what of it goes to the host when it is done.
  void Launched(int64_t rows, bool logits, bool chosen);
  int64_t under_way() const { return static_cast<int64_t>(under_way_.size()); }
  // Hands out the oldest, which is done.
  void Collect(StepOutput* output);
  void DropAll() { under_way_.clear(); }

 private:
  struct Place {
    tensor::Pinned logits, tokens;
    int64_t logits_bytes = 0;
  };
  struct Step {
    size_t place = 0;
    int64_t rows = 0;
    bool logits = false;
    bool chosen = false;
  };
  static constexpr size_t kPlaces = 3;

  const tensor::Memory& memory_;
  tensor::Stream stream_;
  int64_t vocab_;
  tensor::Buffer few_;   // logits of up to kMostGraphRows rows
  tensor::Buffer many_;  // of more; grows
  tensor::Buffer newest_, chosen_;
  float* logits_ = nullptr;  // of the newest step
  std::array<Place, kPlaces> places_;
  size_t next_ = 0;
  std::deque<Step> under_way_;
};

}  // namespace thalweg::model
