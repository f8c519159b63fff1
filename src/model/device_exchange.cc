// Experts over ranks that are devices: rows and results travel from device to device. Which rows go
// where is planned on the host, and its lists travel over the group of the host.
#include <numeric>

#include "base/check.h"
#include "kernels/exchange.h"
#include "model/expert_parallel.h"

namespace thalweg::model {
namespace {

using kernels::ExpertsParams;
using parallel::DispatchCounts;
using parallel::DispatchPlan;
using tensor::BF16;

// What travels between this rank and each of the others: parts of two buffers of a device, one for
// each rank.
struct Travel {
  std::vector<comm::Outgoing> out = {};
  std::vector<comm::Incoming> in = {};

  void Add(int rank, std::byte** from, int64_t out_bytes, std::byte** to, int64_t in_bytes) {
    out.push_back({rank, {*from, static_cast<size_t>(out_bytes)}});
    in.push_back({rank, {*to, static_cast<size_t>(in_bytes)}});
    *from += out_bytes;
    *to += in_bytes;
  }
  comm::Movement movement() const { return {comm::Operation::kAllToAll, out, in}; }
};

int64_t RowsOf(const std::vector<DispatchCounts>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0},
                         [](int64_t sum, const DispatchCounts& c) { return sum + c.rows; });
}

int64_t ResultBytes(int64_t results, int64_t width) {
  return results * width * static_cast<int64_t>(sizeof(BF16));
}

size_t Sum(const std::vector<int64_t>& sizes) {
  return static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
}

std::vector<int64_t> SizesOf(const std::vector<DispatchCounts>& counts) {
  std::vector<int64_t> sizes;
  for (const DispatchCounts& c : counts) sizes.push_back(parallel::MessageBytes(c, 0));
  return sizes;
}

}  // namespace

const kernels::ExchangeOps& ExpertParallel::Packing(const kernels::Ops& ops) const {
  const kernels::ExchangeOps* own = exchange_ != nullptr ? exchange_ : kernels::ExchangeOpsOf(ops);
  TW_CHECK(own != nullptr);
  return *own;
}

Status ExpertParallel::ExchangeThere(int layer, const kernels::Ops& ops,
                                     const ExpertsParams& params) {
  TW_CHECK(params.experts.size() == static_cast<size_t>(placement_.shape.experts));
  if (layer == 0 || layer == cut_layer_) TW_TRY(AgreeOnRows(params.rows));
  if (most_rows_ == 0) return {};  // of all ranks: nobody waits
  const ExpertsParams host = device_.FetchChoices(ops, params);
  TW_ASSIGN(const DispatchPlan plan, PlanRows(layer, host));
  TW_TRY(SendChoices(plan, host));
  TW_TRY(SendRowsThere(layer, plan, ops, params));
  RunReceivedThere(layer, ops, params);
  return ReturnThere(plan, ops, params);
}

// Slots and weights of the rows: messages without the rows.
Status ExpertParallel::SendChoices(const DispatchPlan& plan, const ExpertsParams& host) {
  const bool fixed = capacity_ > 0;
  const std::vector<int64_t> same(static_cast<size_t>(group_->size()),
                                  parallel::FixedMessageBytes(capacity_, host.topk, 0));
  const std::vector<int64_t> out_bytes = fixed ? same : SizesOf(parallel::CountsOf(plan));
  const std::vector<int64_t> in_bytes = fixed ? same : SizesOf(in_counts_);
  sent_.resize(Sum(out_bytes));
  received_.resize(Sum(in_bytes));
  const auto weights = std::span(host.weights, static_cast<size_t>(host.rows * host.topk));
  const auto write = fixed ? parallel::WriteFixedMessage : parallel::WriteMessage;
  auto begin = std::span(sent_);
  for (int r = 0; r < group_->size(); ++r) {
    write(plan, r, {}, 0, weights, host.topk, begin);
    begin = begin.subspan(static_cast<size_t>(out_bytes[static_cast<size_t>(r)]));
  }
  TW_TRY(group_->AllToAll(sent_, out_bytes, received_, in_bytes));
  return ReadRows(0);
}

// The shared expert runs while rows are on their way.
Status ExpertParallel::SendRowsThere(int layer, const DispatchPlan& plan, const kernels::Ops& ops,
                                     const ExpertsParams& params) {
  const std::vector<DispatchCounts> counts = parallel::CountsOf(plan);
  const int64_t row_bytes = tensor::RowBytes(params.quantise, params.hidden);
  const auto sent = static_cast<int64_t>(plan.rows.size());
  std::byte* picked = device_.Room(DeviceExperts::kPicked, sent * row_bytes, ops);
  std::byte* came = device_.Room(DeviceExperts::kCame, RowsOf(in_counts_) * row_bytes, ops);
  Packing(ops).pick_rows({.stream = params.stream,
                          .count = sent,
                          .width = params.hidden,
                          .format = params.quantise,
                          .rows = plan.rows.data(),
                          .x = params.x,
                          .out = reinterpret_cast<uint8_t*>(picked)});
  Travel travel;
  for (int r = 0; r < group_->size(); ++r) {
    const auto at = static_cast<size_t>(r);
    travel.Add(r, &picked, counts[at].rows * row_bytes, &came, in_counts_[at].rows * row_bytes);
  }
  device_.Wait(ops, params.stream);
  TW_ASSIGN(const comm::Ticket ticket, devices_->Begin(travel.movement()));
  ExpertsParams shared = params;
  shared.topk = 0;
  shared.out = reinterpret_cast<BF16*>(
      device_.Room(DeviceExperts::kShared, ResultBytes(params.rows, params.hidden), ops));
  device_.RunThere(layer, ops, shared);
  return devices_->Finish(ticket);
}

// Every pair of a row and an expert as a row of its own, with that expert alone.
void ExpertParallel::RunReceivedThere(int layer, const kernels::Ops& ops,
                                      const ExpertsParams& params) {
  const auto pairs = static_cast<int64_t>(rows_.pairs.size());
  std::vector<int32_t> rows, slots;
  std::vector<float> weights;
  for (const parallel::ReceivedPair& pair : rows_.pairs) {
    rows.push_back(pair.row);
    slots.push_back(pair.local_slot);
    weights.push_back(pair.weight);
  }
  const int64_t bytes = ResultBytes(pairs, params.hidden);
  auto* x = reinterpret_cast<BF16*>(device_.Room(DeviceExperts::kX, bytes, ops));
  Packing(ops).unpack_rows(
      {.stream = params.stream,
       .count = pairs,
       .width = params.hidden,
       .format = params.quantise,
       .rows = rows.data(),
       .came = reinterpret_cast<const uint8_t*>(device_.Room(DeviceExperts::kCame, 0, ops)),
       .out = x});
  const std::vector<kernels::FeedForward> local = Local(layer, params);
  ExpertsParams mine = params;
  mine.rows = pairs;
  mine.topk = 1;
  mine.x = x;
  mine.chosen = slots.data();
  mine.weights = weights.data();
  mine.experts = local;
  mine.out = reinterpret_cast<BF16*>(device_.Room(DeviceExperts::kOut, bytes, ops));
  device_.RunThere(layer, ops, mine);
}

Status ExpertParallel::ReturnThere(const DispatchPlan& plan, const kernels::Ops& ops,
                                   const ExpertsParams& params) {
  const std::vector<DispatchCounts> counts = parallel::CountsOf(plan);
  const auto entries = static_cast<int64_t>(plan.entries.size());
  std::byte* results = device_.Room(DeviceExperts::kOut, 0, ops);
  std::byte* returned =
      device_.Room(DeviceExperts::kReturned, ResultBytes(entries, params.hidden), ops);
  const auto* all = reinterpret_cast<const BF16*>(returned);
  Travel travel;
  for (int r = 0; r < group_->size(); ++r) {
    const auto at = static_cast<size_t>(r);
    travel.Add(r, &results, ResultBytes(in_counts_[at].entries, params.hidden), &returned,
               ResultBytes(counts[at].entries, params.hidden));
  }
  device_.Wait(ops, params.stream);
  TW_TRY(devices_->Exchange(travel.movement()));
  Packing(ops).sum_results(
      {.stream = params.stream,
       .rows = params.rows,
       .topk = params.topk,
       .width = params.hidden,
       .at = plan.returned_at.data(),
       .results = all,
       .shared = reinterpret_cast<const BF16*>(device_.Room(DeviceExperts::kShared, 0, ops)),
       .out = params.out});
  return {};
}

}  // namespace thalweg::model
