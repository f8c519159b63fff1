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
  StepResults(const ModelOptions& options, const checkpoint::Config& config,
              const tensor::Stream& stream);

  // Room for logits of `rows` rows that ops write: of few rows always the same place on a device;
  // on the host `host`, made as large.
  float* TakeLogits(int64_t rows, std::vector<float>* host);
  // Waits until the host has them.
  void FetchLogits(std::vector<float>* host) const;

  // Of a device: the newest token of each slot, and the drafts that were made last for each; the
  // chosen token of each row; the drafts that were accepted of each block.
  int32_t* newest() { return newest_.as<int32_t>(); }
  int32_t* chosen() { return chosen_.as<int32_t>(); }
  int32_t* accepted() { return accepted_.as<int32_t>(); }
  // Where a slot's drafts are among the newest.
  int32_t DraftsAt(int32_t slot) const {
    return static_cast<int32_t>(slots_ + slot * draft_block_);
  }

  // A step of few rows was queued: what of it goes to the host when it is done.
  struct Wanted {
    int64_t rows = 0;
    bool logits = false;
    bool chosen = false;
    int64_t blocks = 0;  // whose accepted drafts are
  };
  void Launched(const Wanted& wanted);
  // Drafts of `sequences` sequences were queued behind that step; confidences: [block, sequences].
  void Drafted(const float* confidences, int64_t sequences);
  int64_t under_way() const { return static_cast<int64_t>(under_way_.size()); }
  // Hands out the oldest, which is done; the drafts behind the one before were handed out.
  void Collect(StepOutput* output);
  // Whether the step that was collected last has drafts that were not; they, which are done.
  bool has_drafts() const { return drafts_.sequences > 0; }
  void CollectDrafts(LaunchedDrafts* output);

 private:
  struct Place {
    tensor::Pinned logits, tokens, drafts;
    int64_t logits_bytes = 0;
  };
  struct Step {
    size_t place = 0;
    Wanted wanted = {};
    int64_t sequences = 0;  // drafted for
  };
  static constexpr size_t kPlaces = 3;

  const tensor::Memory& memory_;
  tensor::Stream stream_;
  int64_t vocab_;
  tensor::Buffer few_;   // logits of up to kMostGraphRows rows
  tensor::Buffer many_;  // of more; grows
  int64_t slots_, draft_block_;
  tensor::Buffer newest_, chosen_, accepted_;
  float* logits_ = nullptr;  // of the newest step
  std::array<Place, kPlaces> places_;
  size_t next_ = 0;
  std::deque<Step> under_way_;
  Step drafts_;  // of the step that was collected last
};

}  // namespace thalweg::model
