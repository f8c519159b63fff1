#include "model/expert_store.h"

#include "base/check.h"
#include "base/math.h"
#include "tensor/buffer.h"

namespace thalweg::model {

using kernels::FeedForward;

ExpertStore::ExpertStore(const kernels::Ops& ops, const FeedForward& like) {
  const std::array<int64_t, 3> packed = {ops.packed_bytes(like.w1), ops.packed_bytes(like.w3),
                                         ops.packed_bytes(like.w2)};
  if (packed[0] == 0 || packed[1] == 0 || packed[2] == 0) return;
  for (size_t i = 0; i < packed.size(); ++i)
    bytes_[i] = base::RoundUp(packed[i], tensor::kAlignBytes);
}

std::byte* ExpertStore::Take() {
  TW_CHECK(!free_.empty());
  std::byte* block = free_.back();
  free_.pop_back();
  return block;
}

std::byte* ExpertStore::BlockOf(const FeedForward& expert) {
  TW_CHECK(expert.w1.packed != nullptr);
  return static_cast<std::byte*>(const_cast<void*>(expert.w1.packed));
}

void ExpertStore::Attach(std::byte* block, FeedForward* expert) const {
  expert->w1.packed = block;
  expert->w3.packed = block + bytes_[0];
  expert->w2.packed = block + bytes_[0] + bytes_[1];
}

void ExpertStore::Release(FeedForward* expert) {
  free_.push_back(BlockOf(*expert));
  expert->w1.packed = expert->w3.packed = expert->w2.packed = nullptr;
}

void ExpertStore::Pack(const kernels::Ops& ops, const tensor::Stream& stream,
                       const FeedForward& expert, std::byte* block) const {
  ops.pack(stream, expert.w1, block);
  ops.pack(stream, expert.w3, block + bytes_[0]);
  ops.pack(stream, expert.w2, block + bytes_[0] + bytes_[1]);
}

}  // namespace thalweg::model
