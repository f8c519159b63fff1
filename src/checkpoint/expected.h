// The tensors that a config must come with: names, dtypes, shapes (spec/model.md 3.2). 96,085 of
// them for the release.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "tensor/view.h"

namespace thalweg::checkpoint {

// The groups of the released inventory (spec/model.md 3.1).
enum class Category {
  kGlobal,        // embedding, final norm, head
  kAttention,     // projections, compressors, indexers, sinks and their norms
  kExpert,        // routed experts, draft stages included
  kSharedExpert,  // target layers
  kRouterNormHc,  // router, block norms, hyper-connections
  kEngram,
  kDraft,   // everything of the draft stages except routed experts
  kVision,  // tower, aligner, image embeddings
};
inline constexpr int kCategories = 8;
std::string_view CategoryName(Category category);

struct ExpectedTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kBF16;  // what the release stores
  bool bf16_or_f32 = false;  // norm, Engram gate and vision weights may be stored as either
  tensor::Shape shape;
  Category category = Category::kGlobal;
  int32_t expert = -1;  // routed expert id; -1: not one
  bool draft = false;   // under mtp.*

  bool Allows(tensor::DType type) const;
  int64_t bytes() const { return shape.elements() * tensor::SizeOf(dtype); }  // as released
};

// The complete list in released order: global, layers, mtp stages, vision. The config must be
// valid.
std::vector<ExpectedTensor> ExpectedTensors(const Config& config);

}  // namespace thalweg::checkpoint
