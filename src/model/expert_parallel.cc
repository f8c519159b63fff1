#include "model/expert_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kernels/exchange.h"
#include "tensor/row_format.h"

namespace thalweg::model {
namespace {

using kernels::ExpertsParams;
using parallel::DispatchCounts;
using parallel::DispatchPlan;
using tensor::BF16;

// Messages have a fixed capacity up to so many rows over all ranks: decode steps, for which it is
// worth more to save an exchange of counts in every layer than not to send room that is not used.
constexpr int64_t kMostFixedRows = 256;

// What a rank says to another before its rows.
struct Announcement {
  int32_t layer = 0;
  DispatchCounts counts;
};

// Parts of a buffer, one for each rank, as messages.
template <typename Message, typename Byte>
std::vector<Message> MessagesOf(std::span<Byte> whole, const std::vector<int64_t>& bytes) {
  std::vector<Message> messages;
  size_t begin = 0;
  for (size_t r = 0; r < bytes.size(); ++r) {
    messages.push_back({static_cast<int>(r), whole.subspan(begin, static_cast<size_t>(bytes[r]))});
    begin += static_cast<size_t>(bytes[r]);
  }
  return messages;
}

std::vector<int64_t> MessageSizes(const std::vector<DispatchCounts>& counts, int64_t row_bytes) {
  std::vector<int64_t> sizes;
  for (const DispatchCounts& c : counts) sizes.push_back(parallel::MessageBytes(c, row_bytes));
  return sizes;
}

std::vector<int64_t> ResultSizes(const std::vector<DispatchCounts>& counts, int64_t hidden) {
  std::vector<int64_t> sizes;
  for (const DispatchCounts& c : counts)
    sizes.push_back(c.entries * hidden * static_cast<int64_t>(sizeof(BF16)));
  return sizes;
}

size_t Sum(const std::vector<int64_t>& sizes) {
  return static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
}

// The rows of a step as the codes and scales that they are already. Nearly all of them go to some
// other rank; where there is none, nobody reads them.
void EncodeRows(const ExpertsParams& p, int64_t row_bytes, std::vector<int32_t>* all,
                std::vector<std::byte>* payload) {
  payload->resize(static_cast<size_t>(p.rows * row_bytes));
  all->resize(static_cast<size_t>(p.rows));
  std::iota(all->begin(), all->end(), 0);
  kernels::HostExchangeOps().pick_rows({.stream = p.stream,
                                        .count = p.rows,
                                        .width = p.hidden,
                                        .format = p.quantise,
                                        .rows = all->data(),
                                        .x = p.x,
                                        .out = reinterpret_cast<uint8_t*>(payload->data())});
}

void DecodeRow(const ExpertsParams& p, const std::byte* row, BF16* out) {
  const int32_t first = 0;
  kernels::HostExchangeOps().unpack_rows({.stream = {},
                                          .count = 1,
                                          .width = p.hidden,
                                          .format = p.quantise,
                                          .rows = &first,
                                          .came = reinterpret_cast<const uint8_t*>(row),
                                          .out = out});
}

// Of the rows received: those of lower ranks come first.
int32_t FirstOwnRow(const std::vector<DispatchCounts>& counts, int self) {
  int32_t first = 0;
  for (int r = 0; r < self; ++r) first += counts[static_cast<size_t>(r)].rows;
  return first;
}

// The values of each pair's row, [pairs, hidden]. A row is decoded once, and one of this rank not
// at all: it is what it was.
void UnpackRows(const ExpertsParams& p, const DispatchPlan& plan,
                const parallel::ReceivedRows& rows, int32_t first_own, int self,
                std::vector<BF16>* x) {
  x->resize(rows.pairs.size() * static_cast<size_t>(p.hidden));
  const int32_t* own = plan.rows.data() + plan.row_begin[static_cast<size_t>(self)];
  BF16* out = x->data();
  int32_t last = -1;
  for (const parallel::ReceivedPair& pair : rows.pairs) {
    const int32_t at = pair.row - first_own;
    if (pair.row == last) {
      std::copy_n(out - p.hidden, p.hidden, out);
    } else if (at >= 0 && at < plan.RowsTo(self)) {
      std::copy_n(p.x + own[at] * p.hidden, p.hidden, out);
    } else {
      DecodeRow(p, rows.payload[static_cast<size_t>(pair.row)], out);
    }
    last = pair.row;
    out += p.hidden;
  }
}

}  // namespace

Result<std::unique_ptr<ExpertParallel>> ExpertParallel::Make(
    comm::Communicator* group, parallel::Placement placement, comm::Communicator* devices,
    const kernels::ExchangeOps* exchange, const kernels::RoutedExchange* routed) {
  TW_TRY(parallel::CheckPlacement(placement));
  if (placement.shape.ranks != group->size())
    return base::InvalidArgument(fmt::format("a placement for {} ranks, there are {}",
                                             placement.shape.ranks, group->size()));
  return std::unique_ptr<ExpertParallel>(
      new ExpertParallel(group, devices, exchange, routed, std::move(placement)));
}

ExpertParallel::ExpertParallel(comm::Communicator* group, comm::Communicator* devices,
                               const kernels::ExchangeOps* exchange,
                               const kernels::RoutedExchange* routed, parallel::Placement placement)
    : group_(group),
      devices_(devices),
      exchange_(exchange),
      placement_(std::move(placement)),
      routed_(devices, routed) {
  MakeTables();
  Forget();
}

void ExpertParallel::MakeTables() {
  tables_.clear();
  for (const auto& layer : placement_.layers) tables_.emplace_back(layer, placement_.shape.experts);
}

Status ExpertParallel::Switch(parallel::Placement placement) {
  TW_TRY(parallel::CheckPlacement(placement));
  if (!(placement.shape == placement_.shape) || placement.layers.size() != placement_.layers.size())
    return base::InvalidArgument("the placement has another shape");
  placement_ = std::move(placement);
  MakeTables();
  routed_.ForgetAll();
  return {};
}

Status ExpertParallel::SwitchLayer(int layer, std::vector<int32_t> slots) {
  TW_CHECK(Covers(layer));
  TW_TRY(parallel::CheckPlacement({placement_.shape, {slots}}));
  const auto l = static_cast<size_t>(layer);
  placement_.layers[l] = std::move(slots);
  tables_[l] = parallel::ReplicaTable(placement_.layers[l], placement_.shape.experts);
  routed_.Forget(layer);
  return {};
}

bool ExpertParallel::Holds(int layer, int64_t expert) const {
  const auto slots = tables_[static_cast<size_t>(layer)].Slots(expert);
  return std::any_of(slots.begin(), slots.end(), [this](int32_t slot) {
    return slot / placement_.shape.slots_per_rank == group_->rank();
  });
}

void ExpertParallel::Forget() {
  routed_.TakeCounts(&counts_);
  counts_ =
      parallel::NoCounts(static_cast<int64_t>(placement_.layers.size()), placement_.shape.experts);
  bytes_ = {};
  padding_bytes_ = 0;
}

void ExpertParallel::Mix(int layer, const kernels::Ops& ops, const ExpertsParams& params) {
  TW_CHECK(Covers(layer));
  if (devices_ != nullptr) {
    if (!status_.ok()) return;
    const bool routes = routed_.capacity() > 0;
    status_ = routes ? MixRouted(layer, ops, params) : ExchangeThere(layer, ops, params);
    return;
  }
  const bool host = ops.memory->host;
  const ExpertsParams rows = host ? params : device_.Fetch(ops, params);
  if (status_.ok()) {
    status_ = Exchange(layer, ops, rows);
    // The others wait for this rank's rows otherwise.
    if (!status_.ok() && group_->Check().ok()) group_->Fail(status_);
  }
  if (!status_.ok()) std::fill_n(rows.out, rows.rows * rows.hidden, BF16{});
  if (!host) device_.StoreOut(ops, params);
}

void ExpertParallel::RunOn(int layer, const kernels::Ops& ops, const ExpertsParams& params) {
  if (ops.memory->host) return ops.experts(params);
  device_.Run(layer, ops, params);
}

void ExpertParallel::RunShared(int layer, const kernels::Ops& ops, const ExpertsParams& params) {
  shared_.resize(static_cast<size_t>(params.rows * params.hidden));
  if (params.rows == 0) return;
  ExpertsParams shared = params;
  shared.topk = 0;
  shared.experts = {};
  shared.out = shared_.data();
  RunOn(layer, ops, shared);
}

Result<DispatchPlan> ExpertParallel::PlanRows(int layer, const ExpertsParams& params) {
  const auto chosen = std::span(params.chosen, static_cast<size_t>(params.rows * params.topk));
  DispatchPlan plan = parallel::PlanDispatch({params.rows, params.topk, chosen, group_->rank(), 0},
                                             tables_[static_cast<size_t>(layer)], placement_.shape);
  Count(layer, params, plan);
  if (capacity_ == 0) {
    TW_TRY(SendCounts(layer, parallel::CountsOf(plan)));
  } else {
    TW_TRY(parallel::CheckCapacity(plan, capacity_));
  }
  return plan;
}

Status ExpertParallel::Exchange(int layer, const kernels::Ops& ops, const ExpertsParams& params) {
  TW_CHECK(params.experts.size() == static_cast<size_t>(placement_.shape.experts));
  if (layer == 0 || layer == cut_layer_) TW_TRY(AgreeOnRows(params.rows));
  if (most_rows_ == 0) return {};  // of all ranks: nobody waits
  TW_ASSIGN(const DispatchPlan plan, PlanRows(layer, params));
  TW_TRY(SendRows(layer, plan, ops, params));
  TW_TRY(ReadRows(tensor::RowBytes(params.quantise, params.hidden)));
  UnpackRows(params, plan, rows_, FirstOwnRow(in_counts_, group_->rank()), group_->rank(), &x_);
  RunReceived(layer, ops, params);
  TW_TRY(ReturnResults(plan, params.hidden));
  Combine(plan, params);
  return {};
}

void ExpertParallel::Count(int layer, const ExpertsParams& params, const DispatchPlan& plan) {
  if (layer == 0) counts_.rows += params.rows;
  auto& of_layer = counts_.layers[static_cast<size_t>(layer)];
  for (int64_t i = 0; i < params.rows * params.topk; ++i)
    ++of_layer[static_cast<size_t>(params.chosen[i])];
  const parallel::EpBytes bytes = parallel::PlannedBytes(
      plan, group_->rank(), params.hidden, tensor::RowBytes(params.quantise, params.hidden));
  bytes_.dispatch += bytes.dispatch;
  bytes_.combine += bytes.combine;
}

// Rows of all ranks, from this layer to where they agree anew.
Status ExpertParallel::AgreeOnRows(int64_t rows) {
  std::vector<int64_t> all(static_cast<size_t>(group_->size()));
  TW_TRY(group_->AllGather(std::as_bytes(std::span(&rows, size_t{1})),
                           std::as_writable_bytes(std::span(all))));
  most_rows_ = *std::max_element(all.begin(), all.end());
  capacity_ = most_rows_ * group_->size() <= kMostFixedRows ? most_rows_ : 0;
  return {};
}

// What comes next, and of which layer.
Status ExpertParallel::SendCounts(int layer, const std::vector<DispatchCounts>& counts) {
  const auto ranks = static_cast<size_t>(group_->size());
  std::vector<Announcement> out, in(ranks);
  for (const DispatchCounts& c : counts) out.push_back({layer, c});
  const std::vector<int64_t> each(ranks, sizeof(Announcement));
  TW_TRY(group_->AllToAll(std::as_bytes(std::span(out)), each,
                          std::as_writable_bytes(std::span(in)), each));
  in_counts_.clear();
  for (size_t r = 0; r < ranks; ++r) {
    if (in[r].layer != layer)
      return base::Internal(fmt::format("rank {} is in layer {} where rank {} is in layer {}", r,
                                        in[r].layer, group_->rank(), layer));
    if (in[r].counts.rows < 0 || in[r].counts.entries < 0)
      return base::Internal(fmt::format("rank {} announces fewer rows than none", r));
    in_counts_.push_back(in[r].counts);
  }
  return {};
}

// One message for each rank, of so many bytes.
void ExpertParallel::WriteRows(const DispatchPlan& plan, const ExpertsParams& params,
                               const std::vector<int64_t>& bytes) {
  const int64_t row_bytes = tensor::RowBytes(params.quantise, params.hidden);
  const auto weights = std::span(params.weights, static_cast<size_t>(params.rows * params.topk));
  const auto write = capacity_ > 0 ? parallel::WriteFixedMessage : parallel::WriteMessage;
  if (group_->size() > 1) {
    EncodeRows(params, row_bytes, &all_rows_, &payload_);
  } else {
    payload_.resize(static_cast<size_t>(params.rows * row_bytes));
  }
  sent_.resize(Sum(bytes));
  auto begin = std::span(sent_);
  for (int r = 0; r < group_->size(); ++r) {
    write(plan, r, payload_, row_bytes, weights, params.topk, begin);
    begin = begin.subspan(static_cast<size_t>(bytes[static_cast<size_t>(r)]));
  }
}

// The shared expert runs while rows are on their way.
Status ExpertParallel::SendRows(int layer, const DispatchPlan& plan, const kernels::Ops& ops,
                                const ExpertsParams& params) {
  const int64_t row_bytes = tensor::RowBytes(params.quantise, params.hidden);
  const std::vector<int64_t> exact = MessageSizes(parallel::CountsOf(plan), row_bytes);
  const std::vector<int64_t> fixed(exact.size(),
                                   parallel::FixedMessageBytes(capacity_, params.topk, row_bytes));
  const auto& out_bytes = capacity_ > 0 ? fixed : exact;
  const auto in_bytes = capacity_ > 0 ? fixed : MessageSizes(in_counts_, row_bytes);
  for (int r = 0; r < group_->size(); ++r)
    if (r != group_->rank())
      padding_bytes_ += out_bytes[static_cast<size_t>(r)] - exact[static_cast<size_t>(r)];
  WriteRows(plan, params, out_bytes);
  received_.resize(Sum(in_bytes));
  const auto out = MessagesOf<comm::Outgoing>(std::span<const std::byte>(sent_), out_bytes);
  const auto in = MessagesOf<comm::Incoming>(std::span(received_), in_bytes);
  TW_ASSIGN(const comm::Ticket ticket, group_->Begin({comm::Operation::kAllToAll, out, in}));
  RunShared(layer, ops, params);
  return group_->Finish(ticket);
}

Status ExpertParallel::ReadRows(int64_t row_bytes) {
  rows_ = {};
  if (capacity_ > 0) return ReadFixedRows(row_bytes);
  auto left = std::span<const std::byte>(received_);
  for (const DispatchCounts& counts : in_counts_) {
    const auto bytes = static_cast<size_t>(parallel::MessageBytes(counts, row_bytes));
    TW_TRY(parallel::ReadMessage(left.first(bytes), counts, row_bytes,
                                 placement_.shape.slots_per_rank, &rows_));
    left = left.subspan(bytes);
  }
  return {};
}

// The experts of this rank's slots.
std::vector<kernels::FeedForward> ExpertParallel::Local(int layer,
                                                        const ExpertsParams& params) const {
  const int64_t first = group_->rank() * placement_.shape.slots_per_rank;
  std::vector<kernels::FeedForward> local;
  for (int64_t s = 0; s < placement_.shape.slots_per_rank; ++s) {
    const auto& experts = placement_.layers[static_cast<size_t>(layer)];
    local.push_back(params.experts[static_cast<size_t>(experts[static_cast<size_t>(first + s)])]);
  }
  return local;
}

// What each message has inside is known when it is read.
Status ExpertParallel::ReadFixedRows(int64_t row_bytes) {
  const auto ranks = static_cast<size_t>(group_->size());
  const size_t bytes = received_.size() / ranks;
  in_counts_.assign(ranks, {});
  for (size_t r = 0; r < ranks; ++r) {
    const auto message = std::span<const std::byte>(received_).subspan(r * bytes, bytes);
    const size_t rows = rows_.payload.size(), entries = rows_.pairs.size();
    TW_TRY(parallel::ReadFixedMessage(message, row_bytes, placement_.shape.slots_per_rank, &rows_));
    in_counts_[r] = {static_cast<int32_t>(rows_.payload.size() - rows),
                     static_cast<int32_t>(rows_.pairs.size() - entries)};
  }
  return {};
}

// Every pair of a row and an expert as a row of its own, with that expert alone: results [pairs,
// hidden].
void ExpertParallel::RunReceived(int layer, const kernels::Ops& ops, const ExpertsParams& params) {
  const auto pairs = static_cast<int64_t>(rows_.pairs.size());
  results_.resize(static_cast<size_t>(pairs * params.hidden));
  if (pairs == 0) return;
  std::vector<float> weights;
  std::vector<int32_t> slots;
  for (const parallel::ReceivedPair& pair : rows_.pairs) {
    slots.push_back(pair.local_slot);
    weights.push_back(pair.weight);
  }
  const std::vector<kernels::FeedForward> local = Local(layer, params);
  ExpertsParams mine = params;
  mine.rows = pairs;
  mine.topk = 1;
  mine.x = x_.data();
  mine.chosen = slots.data();
  mine.weights = weights.data();
  mine.experts = local;
  mine.shared = {};
  mine.out = results_.data();
  RunOn(layer, ops, mine);
}

Status ExpertParallel::ReturnResults(const DispatchPlan& plan, int64_t hidden) {
  const auto out_bytes = ResultSizes(in_counts_, hidden);
  const auto in_bytes = ResultSizes(parallel::CountsOf(plan), hidden);
  returned_.resize(Sum(in_bytes) / sizeof(BF16));
  return group_->AllToAll(std::as_bytes(std::span(results_)), out_bytes,
                          std::as_writable_bytes(std::span(returned_)), in_bytes);
}

void ExpertParallel::Combine(const DispatchPlan& plan, const ExpertsParams& p) {
  kernels::HostExchangeOps().sum_results({.stream = p.stream,
                                          .rows = p.rows,
                                          .topk = p.topk,
                                          .width = p.hidden,
                                          .at = plan.returned_at.data(),
                                          .results = returned_.data(),
                                          .shared = shared_.data(),
                                          .out = p.out});
}

}  // namespace thalweg::model
