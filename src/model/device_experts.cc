#include "model/device_experts.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/stored_bytes.h"

namespace thalweg::model {
namespace {

using kernels::ExpertsParams;
using kernels::FeedForward;
using kernels::Matrix;
using kernels::Ops;
using tensor::BF16;

template <typename T>
int64_t BytesOf(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

int64_t ZeroBytes(const Ops& ops, const Matrix& m) {
  const int64_t packed = m.packed != nullptr ? ops.packed_bytes(m) : 0;
  const int64_t bytes = packed > 0 ? packed : kernels::CodeBytes(m) + kernels::ScaleBytes(m);
  return base::RoundUp(bytes, tensor::kAlignBytes);
}

// Codes and scales of zero, in place of those of m; packed where m is.
void FillZero(const Ops& ops, const tensor::Stream& stream, Matrix* m, std::byte* place) {
  Matrix stored = *m;
  const std::vector<uint8_t> codes(static_cast<size_t>(kernels::CodeBytes(*m)));
  const std::vector<uint8_t> scales(static_cast<size_t>(kernels::ScaleBytes(*m)), 127);
  stored.packed = nullptr;
  stored.data = codes.data();
  stored.scales = scales.data();
  if (m->packed != nullptr) {
    ops.pack(stream, stored, place);
    m->packed = place;
    return;
  }
  const int64_t code_bytes = BytesOf(codes);
  ops.memory->upload(stream, place, codes.data(), code_bytes);
  ops.memory->upload(stream, place + code_bytes, scales.data(), BytesOf(scales));
  m->data = place;
  m->scales = reinterpret_cast<const uint8_t*>(place + code_bytes);
}

void Keep(std::span<const FeedForward> from, std::vector<FeedForward>* to) {
  if (to->size() != from.size()) to->resize(from.size());
  std::copy(from.begin(), from.end(), to->begin());
}

}  // namespace

ExpertsParams DeviceExperts::Fetch(const Ops& ops, const ExpertsParams& params) {
  const auto pairs = static_cast<size_t>(params.rows * params.topk);
  x_.resize(static_cast<size_t>(params.rows * params.hidden));
  out_.resize(x_.size());
  chosen_.resize(pairs);
  weights_.resize(pairs);
  if (params.rows > 0) {
    ops.memory->download(params.stream, x_.data(), params.x, BytesOf(x_));
    ops.memory->download(params.stream, chosen_.data(), params.chosen, BytesOf(chosen_));
    ops.memory->download(params.stream, weights_.data(), params.weights, BytesOf(weights_));
  }
  ExpertsParams host = params;
  host.x = x_.data();
  host.chosen = chosen_.data();
  host.weights = weights_.data();
  host.out = out_.data();
  return host;
}

void DeviceExperts::StoreOut(const Ops& ops, const ExpertsParams& params) {
  if (params.rows == 0) return;
  ops.memory->upload(params.stream, params.out, out_.data(), BytesOf(out_));
}

// Of the shapes and the format of `like`.
const FeedForward& DeviceExperts::Zero(const Ops& ops, const ExpertsParams& p,
                                       const FeedForward& like) {
  for (const Zeros& made : zeros_)
    if (made.weights.w1.format == like.w1.format) return made.weights;
  Zeros& zero = zeros_.emplace_back();
  zero.weights = like;
  Matrix* const all[] = {&zero.weights.w1, &zero.weights.w3, &zero.weights.w2};
  int64_t bytes = 0;
  for (const Matrix* m : all) bytes += ZeroBytes(ops, *m);
  zero.bytes = tensor::Buffer(bytes, *ops.memory);
  std::byte* place = zero.bytes.data();
  for (Matrix* m : all) {
    const int64_t taken = ZeroBytes(ops, *m);
    FillZero(ops, p.stream, m, place);
    place += taken;
  }
  return zero.weights;
}

std::byte* DeviceExperts::Room(Purpose purpose, int64_t bytes, const Ops& ops) {
  tensor::Buffer& room = rooms_[purpose];
  if (room.bytes() < bytes || room.bytes() == 0) {
    room = {};
    room = tensor::Buffer(base::RoundUp(bytes + bytes / 4 + 1, tensor::kAlignBytes), *ops.memory);
  }
  return room.data();
}

void DeviceExperts::Wait(const Ops& ops, const tensor::Stream& stream) {
  int32_t any = 0;
  ops.memory->download(stream, &any, Room(kChosen, sizeof(any), ops), sizeof(any));
}

ExpertsParams DeviceExperts::FetchChoices(const Ops& ops, const ExpertsParams& params) {
  const auto pairs = static_cast<size_t>(params.rows * params.topk);
  chosen_.resize(pairs);
  weights_.resize(pairs);
  if (pairs > 0) {
    ops.memory->download(params.stream, chosen_.data(), params.chosen, BytesOf(chosen_));
    ops.memory->download(params.stream, weights_.data(), params.weights, BytesOf(weights_));
  }
  ExpertsParams host = params;
  host.chosen = chosen_.data();
  host.weights = weights_.data();
  return host;
}

void DeviceExperts::RunThere(int layer, const Ops& ops, const ExpertsParams& p) {
  if (p.rows == 0) return;
  TW_CHECK(p.topk <= 1);
  const auto at = static_cast<size_t>(layer);
  if (layers_.size() <= at) layers_.resize(at + 1);
  const bool shared_alone = p.topk == 0;
  std::vector<FeedForward>& experts = shared_alone ? layers_[at].shared : layers_[at].routed;
  Keep(shared_alone ? std::span(&p.shared, 1) : p.experts, &experts);
  std::vector<int32_t> first;
  std::vector<float> one;
  if (shared_alone) {
    first.assign(static_cast<size_t>(p.rows), 0);
    one.assign(static_cast<size_t>(p.rows), 1.0f);
  }
  const auto bring = [&](Purpose purpose, const void* from, int64_t bytes) {
    std::byte* to = Room(purpose, bytes, ops);
    ops.memory->upload(p.stream, to, from, bytes);
    return to;
  };
  ExpertsParams run = p;
  run.topk = 1;
  run.experts = experts;
  run.shared = Zero(ops, p, zeros_.empty() ? experts.front() : zeros_.front().weights);
  run.chosen = reinterpret_cast<const int32_t*>(
      bring(kChosen, shared_alone ? first.data() : p.chosen, p.rows * int64_t{sizeof(int32_t)}));
  run.weights = reinterpret_cast<const float*>(
      bring(kWeights, shared_alone ? one.data() : p.weights, p.rows * int64_t{sizeof(float)}));
  ops.experts(run);
}

void DeviceExperts::RunChosen(int layer, const Ops& ops, const ExpertsParams& p) {
  if (p.rows == 0) return;
  TW_CHECK(p.topk <= 1);
  const auto at = static_cast<size_t>(layer);
  if (layers_.size() <= at) layers_.resize(at + 1);
  ExpertsParams run = p;
  run.topk = 1;
  run.shared = Zero(ops, p, p.shared);
  if (p.topk == 0) {
    Keep(std::span(&p.shared, 1), &layers_[at].shared);
    run.experts = layers_[at].shared;
  } else {
    std::vector<FeedForward> all(p.experts.begin(), p.experts.end());
    all.push_back(Zero(ops, p, p.experts.front()));
    Keep(all, &layers_[at].chosen);
    run.experts = layers_[at].chosen;
  }
  ops.experts(run);
}

void DeviceExperts::Run(int layer, const Ops& ops, const ExpertsParams& p) {
  if (p.rows == 0) return;
  const int64_t width = p.rows * p.hidden * static_cast<int64_t>(sizeof(BF16));
  ExpertsParams run = p;
  std::byte* x = Room(kX, width, ops);
  ops.memory->upload(p.stream, x, p.x, width);
  run.x = reinterpret_cast<const BF16*>(x);
  run.out = reinterpret_cast<BF16*>(Room(kOut, width, ops));
  RunThere(layer, ops, run);
  ops.memory->download(p.stream, p.out, run.out, width);
}

}  // namespace thalweg::model
