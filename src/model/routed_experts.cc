#include "model/routed_experts.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace thalweg::model {
namespace {

using kernels::ExpertsParams;
using kernels::Ops;
using tensor::BF16;

constexpr auto kValue = static_cast<int64_t>(sizeof(BF16));
constexpr auto kInt = static_cast<int64_t>(sizeof(int32_t));
constexpr int64_t kMostRanks = 64;  // offers begin at multiples of 16 bytes

int64_t TableInts(const parallel::PlacementShape& shape) {
  return shape.experts + 1 + shape.slots();
}

}  // namespace

int64_t RoutedBytes(int64_t hidden, int64_t topk) {
  const int64_t pairs = kMostRoutedRows * topk;
  return 3 * pairs * hidden * kValue + 3 * kMostRoutedRows * hidden * kValue +
         8 * (pairs + kMostRoutedRows) * kInt;
}

bool RoutedExperts::Can(const Ops& ops) const {
  return allowed_ && devices_ != nullptr && devices_->size() <= kMostRanks &&
         (exchange_ != nullptr || kernels::RoutedExchangeOf(ops) != nullptr);
}

const kernels::RoutedExchange& RoutedExperts::Exchange(const Ops& ops) const {
  return exchange_ != nullptr ? *exchange_ : *kernels::RoutedExchangeOf(ops);
}

// All of the largest size, for recordings keep where they are.
void RoutedExperts::MakeRooms(const Ops& ops, const ExpertsParams& p) {
  if (rooms_[kX].bytes() > 0) return;
  const int64_t pairs = kMostRoutedRows * p.topk, rows = kMostRoutedRows;
  const int64_t offers =
      rows * (tensor::RowBytes(p.quantise, p.hidden) + 2 * p.topk * kInt) + 16 * kMostRanks;
  const int64_t bytes[kPurposes] = {offers,
                                    offers,
                                    pairs * p.hidden * kValue,
                                    pairs * p.hidden * kValue,
                                    pairs * p.hidden * kValue,
                                    rows * p.hidden * kValue,
                                    pairs * kInt,
                                    pairs * kInt,
                                    pairs * kInt,
                                    rows * kInt,
                                    rows * kInt};
  for (size_t i = 0; i < kPurposes; ++i)
    rooms_[i] = tensor::Buffer(base::RoundUp(bytes[i], tensor::kAlignBytes), *ops.memory);
  const std::vector<int32_t> first(static_cast<size_t>(rows), 0);
  const std::vector<float> one(static_cast<size_t>(rows), 1.0F);
  ops.memory->upload(p.stream, Room<void>(kFirst), first.data(), rows * kInt);
  ops.memory->upload(p.stream, Room<void>(kOne), one.data(), rows * kInt);
}

// The ranks' slots of each expert, as kernels look for them.
void RoutedExperts::SendTable(const Layer& layer, const Ops& ops, const tensor::Stream& stream) {
  std::vector<int32_t> table, slots;
  for (int64_t e = 0; e < layer.shape->experts; ++e) {
    table.push_back(static_cast<int32_t>(slots.size()));
    const auto of_expert = layer.table->Slots(e);
    slots.insert(slots.end(), of_expert.begin(), of_expert.end());
  }
  table.push_back(static_cast<int32_t>(slots.size()));
  table.insert(table.end(), slots.begin(), slots.end());
  ops.memory->upload(stream, const_cast<int32_t*>(TableOf(layer)), table.data(),
                     static_cast<int64_t>(table.size()) * kInt);
}

const int32_t* RoutedExperts::TableOf(const Layer& layer) const {
  return reinterpret_cast<const int32_t*>(tables_.data()) + layer.number * TableInts(*layer.shape);
}

void RoutedExperts::Prepare(const Layer& layer, const Ops& ops, const ExpertsParams& p) {
  TW_CHECK_LE(capacity_ * devices_->size(), kMostRoutedRows);
  TW_CHECK_LE(p.rows, capacity_);
  MakeRooms(ops, p);
  if (tables_.bytes() == 0) {
    tables_ = tensor::Buffer(layer.layers * TableInts(*layer.shape) * kInt, *ops.memory);
    counts_ = tensor::Buffer(layer.layers * layer.shape->experts * 8, *ops.memory);
  }
  known_.resize(static_cast<size_t>(layer.layers), 0);
  uint8_t& known = known_[static_cast<size_t>(layer.number)];
  if (known == 0) SendTable(layer, ops, p.stream);
  known = 1;
  shape_ = {.capacity = capacity_, .width = p.hidden, .topk = p.topk, .format = p.quantise};
  counted_by_ = &ops;
  stream_ = p.stream;
}

void RoutedExperts::Forget(int layer) {
  if (static_cast<size_t>(layer) < known_.size()) known_[static_cast<size_t>(layer)] = 0;
}

void RoutedExperts::Offer(const Layer& layer, const Ops& ops, const ExpertsParams& p) {
  auto* counts = reinterpret_cast<int64_t*>(counts_.data());
  Exchange(ops).offer_rows({.stream = p.stream,
                            .shape = shape_,
                            .rows = p.rows,
                            .live = live_,
                            .x = p.x,
                            .chosen = p.chosen,
                            .weights = p.weights,
                            .counts = counts + layer.number * layer.shape->experts,
                            .out = Room<uint8_t>(kOffer)});
}

void RoutedExperts::Route(const Layer& layer, const Ops& ops, const ExpertsParams& p) {
  const int32_t* table = TableOf(layer);
  Exchange(ops).route_rows({.stream = p.stream,
                            .shape = shape_,
                            .ranks = devices_->size(),
                            .self = devices_->rank(),
                            .rows = p.rows,
                            .slots_per_rank = layer.shape->slots_per_rank,
                            .x = p.x,
                            .own = Room<uint8_t>(kOffer),
                            .came = Room<uint8_t>(kCame),
                            .slot_begin = table,
                            .slots = table + layer.shape->experts + 1,
                            .out = Room<BF16>(kX),
                            .chosen = Room<int32_t>(kChosen),
                            .weights = Room<float>(kWeights),
                            .holder = Room<int32_t>(kHolder)});
}

void RoutedExperts::RunShared(const Layer& layer, const Ops& ops, const ExpertsParams& p,
                              DeviceExperts* device) {
  ExpertsParams shared = p;
  shared.topk = 0;
  shared.chosen = Room<int32_t>(kFirst);
  shared.weights = Room<float>(kOne);
  shared.out = Room<BF16>(kShared);
  device->RunChosen(layer.number, ops, shared);
}

// A pair as a row of its own; those of other ranks go through an expert of zeros.
void RoutedExperts::RunRouted(const Layer& layer, const Ops& ops, const ExpertsParams& p,
                              DeviceExperts* device) {
  ExpertsParams mine = p;
  mine.rows = devices_->size() * shape_.pairs();
  mine.topk = 1;
  mine.x = Room<BF16>(kX);
  mine.chosen = Room<int32_t>(kChosen);
  mine.weights = Room<float>(kWeights);
  mine.experts = layer.local;
  mine.out = Room<BF16>(kResults);
  device->RunChosen(layer.number, ops, mine);
}

Status RoutedExperts::Send(const Ops& ops, const ExpertsParams& p, std::byte* out, std::byte* in,
                           int64_t bytes, bool each, DeviceExperts* device) {
  std::vector<comm::Outgoing> outgoing;
  std::vector<comm::Incoming> incoming;
  for (int r = 0; r < devices_->size(); ++r) {
    if (r == devices_->rank()) continue;
    outgoing.push_back({r, {out + (each ? 0 : r * bytes), static_cast<size_t>(bytes)}});
    incoming.push_back({r, {in + r * bytes, static_cast<size_t>(bytes)}});
  }
  const comm::Movement movement{comm::Operation::kAllToAll, outgoing, incoming};
  if (devices_->queues()) {
    TW_TRY(devices_->Enqueue(movement, Exchange(ops).queue_of(p.stream)));
    return settles_ ? Settle(ops, p) : Status();
  }
  device->Wait(ops, p.stream);
  TW_ASSIGN(ticket_, devices_->Begin(movement));
  return {};
}

Status RoutedExperts::Settle(const Ops& ops, const ExpertsParams& p) {
  const kernels::RoutedExchange& exchange = Exchange(ops);
  TW_TRY(devices_->Join(exchange.queue_of(p.stream)));
  return devices_->Await([&] { return exchange.idle(p.stream); });
}

Status RoutedExperts::Arrive(const Ops& ops, const ExpertsParams& p) {
  if (devices_->queues()) return devices_->Join(Exchange(ops).queue_of(p.stream));
  return devices_->Finish(ticket_);
}

Status RoutedExperts::Mix(const Layer& layer, const Ops& ops, const ExpertsParams& p,
                          DeviceExperts* device) {
  Prepare(layer, ops, p);
  Offer(layer, ops, p);
  TW_TRY(
      Send(ops, p, Room<std::byte>(kOffer), Room<std::byte>(kCame), shape_.bytes(), true, device));
  RunShared(layer, ops, p, device);
  TW_TRY(Arrive(ops, p));
  Route(layer, ops, p);
  RunRouted(layer, ops, p, device);
  TW_TRY(Send(ops, p, Room<std::byte>(kResults), Room<std::byte>(kReturned),
              shape_.pairs() * p.hidden * kValue, false, device));
  TW_TRY(Arrive(ops, p));
  Exchange(ops).sum_routed({.stream = p.stream,
                            .shape = shape_,
                            .self = devices_->rank(),
                            .rows = p.rows,
                            .holder = Room<int32_t>(kHolder),
                            .own = Room<BF16>(kResults),
                            .came = Room<BF16>(kReturned),
                            .shared = Room<BF16>(kShared),
                            .out = p.out});
  return {};
}

void RoutedExperts::TakeCounts(parallel::ExpertCounts* counts) {
  if (counted_by_ == nullptr) return;
  const tensor::Memory& memory = *counted_by_->memory;
  std::vector<int64_t> counted(static_cast<size_t>(counts_.bytes()) / sizeof(int64_t));
  memory.download(stream_, counted.data(), counts_.data(), counts_.bytes());
  auto next = counted.begin();
  for (auto& layer : counts->layers)
    for (int64_t& count : layer) count += *next++;
  std::fill(counted.begin(), counted.end(), 0);
  memory.upload(stream_, counts_.data(), counted.data(), counts_.bytes());
}

}  // namespace thalweg::model
