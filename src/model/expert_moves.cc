#include "model/expert_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "model/expert_store.h"
#include "parallel/rebalance.h"

namespace thalweg::model {
namespace {

using kernels::FeedForward;
using kernels::Matrix;

constexpr int64_t kPageBytes = 4096;

int64_t StoredBytes(const Matrix& m) {
  const int64_t values = m.rows * m.cols;
  switch (m.format) {
    case kernels::WeightFormat::kBF16: return values * 2;
    case kernels::WeightFormat::kF32: return values * 4;
    case kernels::WeightFormat::kFp8: return values;
    case kernels::WeightFormat::kFp4: return values / 2;
  }
  return values;
}

int64_t StoredBytes(const FeedForward& f) {
  return StoredBytes(f.w1) + StoredBytes(f.w3) + StoredBytes(f.w2);
}

// Has the mapped file in memory before a step needs it.
void Touch(const Matrix& m) {
  const auto* data = static_cast<const volatile uint8_t*>(m.data);
  for (int64_t at = 0; at < StoredBytes(m); at += kPageBytes) static_cast<void>(data[at]);
}

}  // namespace

Result<std::unique_ptr<ExpertMoves>> ExpertMoves::Make(comm::Communicator* group,
                                                       ExpertParallel* experts, Model* model,
                                                       comm::Communicator* devices) {
  const int64_t own = model->expert_store().block_bytes();
  std::vector<int64_t> all(static_cast<size_t>(group->size()));
  TW_TRY(group->AllGather(std::as_bytes(std::span(&own, size_t{1})),
                          std::as_writable_bytes(std::span(all))));
  const bool same =
      own > 0 && std::all_of(all.begin(), all.end(), [own](int64_t bytes) { return bytes == own; });
  if (!same && !model->options().ops->memory->host)
    return base::Unsupported(fmt::format(
        "experts of the {} backend move as it lays them out, and here it uses them as they are "
        "stored, or the ranks differ: leave --rebalance-window out",
        model->options().ops->name));
  return std::unique_ptr<ExpertMoves>(new ExpertMoves(group, devices, experts, model, same));
}

ExpertMoves::ExpertMoves(comm::Communicator* group, comm::Communicator* devices,
                         ExpertParallel* experts, Model* model, bool by_message)
    : group_(group), devices_(devices), experts_(experts), model_(model), by_message_(by_message) {
  expert_bytes_ =
      by_message ? model->expert_store().block_bytes() : StoredBytes(model->experts(0).front());
}

Status ExpertMoves::Begin(int layer, std::vector<int32_t> slots) {
  if (busy()) return base::FailedPrecondition("experts are under way already");
  const parallel::Placement& old = experts_->placement();
  if (layer < 0 || layer >= static_cast<int>(old.layers.size()))
    return base::InvalidArgument(
        fmt::format("layer {} of {} whose experts lie on ranks", layer, old.layers.size()));
  TW_TRY(parallel::CheckPlacement({old.shape, {slots}}));
  layer_ = layer;
  List(slots);
  slots_ = std::move(slots);
  FindBlocks();
  return {};
}

// One transfer for each expert and rank, whatever number of slots it gets there.
void ExpertMoves::List(const std::vector<int32_t>& slots) {
  const parallel::Placement& old = experts_->placement();
  const auto& before = old.layers[static_cast<size_t>(layer_)];
  std::set<std::pair<int32_t, int>> listed;
  transfers_.clear();
  for (const parallel::Move& move : parallel::MovesBetween(layer_, before, slots, old.shape)) {
    const auto from = static_cast<int>(move.from / old.shape.slots_per_rank);
    const auto to = static_cast<int>(move.to / old.shape.slots_per_rank);
    if (from != to && listed.insert({move.expert, to}).second)
      transfers_.push_back({move.expert, from, to});
  }
}

void ExpertMoves::FindBlocks() {
  ExpertStore& store = model_->expert_store();
  if (store.block_bytes() == 0) return;
  for (Transfer& t : transfers_) {
    if (t.to == group_->rank()) t.block = store.Take();
    if (t.from == group_->rank() && by_message_)
      t.block = ExpertStore::BlockOf(model_->experts(layer_)[static_cast<size_t>(t.expert)]);
  }
}

// At most one message between two ranks; who has no room left waits for the next time.
std::vector<ExpertMoves::Piece> ExpertMoves::NextPieces(int64_t bytes) {
  const auto ranks = static_cast<size_t>(group_->size());
  std::vector<int64_t> in(ranks, bytes), out(ranks, bytes);
  std::set<std::pair<int, int>> used;
  std::vector<Piece> pieces;
  for (size_t i = 0; i < transfers_.size(); ++i) {
    Transfer& t = transfers_[i];
    int64_t& room_in = in[static_cast<size_t>(t.to)];
    int64_t& room_out = out[static_cast<size_t>(t.from)];
    const int64_t piece = std::min({expert_bytes_ - t.done, room_in, room_out});
    if (piece == 0 || !used.insert({t.from, t.to}).second) continue;
    pieces.push_back({i, t.done, piece});
    t.done += piece;
    room_in -= piece;
    room_out -= piece;
  }
  const int64_t room =
      std::min(*std::min_element(in.begin(), in.end()), *std::min_element(out.begin(), out.end()));
  advanced_bytes_ = bytes - room;
  return pieces;
}

Status ExpertMoves::Exchange(const std::vector<Piece>& pieces) {
  std::vector<comm::Outgoing> out;
  std::vector<comm::Incoming> in;
  for (const Piece& piece : pieces) {
    const Transfer& t = transfers_[piece.transfer];
    const auto bytes = static_cast<size_t>(piece.bytes);
    if (t.from == group_->rank()) out.push_back({t.to, {t.block + piece.begin, bytes}});
    if (t.to == group_->rank()) in.push_back({t.from, {t.block + piece.begin, bytes}});
  }
  comm::Communicator* way = model_->options().ops->memory->host ? group_ : devices_;
  return way->Exchange({comm::Operation::kExchange, out, in});
}

// Pieces of a device whose rank is none to the others.
Status ExpertMoves::ExchangeThroughHost(const std::vector<Piece>& pieces) {
  const tensor::Memory& memory = *model_->options().ops->memory;
  const tensor::Stream stream = model_->stream();
  std::vector<std::vector<std::byte>> staged(pieces.size());
  std::vector<comm::Outgoing> out;
  std::vector<comm::Incoming> in;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Transfer& t = transfers_[pieces[i].transfer];
    const bool leaves = t.from == group_->rank();
    if (!leaves && t.to != group_->rank()) continue;
    staged[i].resize(static_cast<size_t>(pieces[i].bytes));
    if (!leaves) in.push_back({t.from, staged[i]});
    if (!leaves) continue;
    memory.download(stream, staged[i].data(), t.block + pieces[i].begin, pieces[i].bytes);
    out.push_back({t.to, staged[i]});
  }
  TW_TRY(group_->Exchange({comm::Operation::kExchange, out, in}));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Transfer& t = transfers_[pieces[i].transfer];
    if (t.to == group_->rank())
      memory.upload(stream, t.block + pieces[i].begin, staged[i].data(), pieces[i].bytes);
  }
  return {};
}

Status ExpertMoves::Travel(const std::vector<Piece>& pieces) {
  const tensor::Memory& memory = *model_->options().ops->memory;
  if (memory.host) return Exchange(pieces);
  TW_TRY(memory.synchronize(model_->stream()));
  return devices_ != nullptr ? Exchange(pieces) : ExchangeThroughHost(pieces);
}

void ExpertMoves::Fetch(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    const Transfer& t = transfers_[piece.transfer];
    if (t.to == group_->rank() && t.done == expert_bytes_) FetchExpert(t);
  }
}

void ExpertMoves::FetchExpert(const Transfer& t) {
  const FeedForward& expert = model_->experts(layer_)[static_cast<size_t>(t.expert)];
  if (t.block == nullptr) {
    for (const Matrix* m : {&expert.w1, &expert.w3, &expert.w2}) Touch(*m);
    return;
  }
  model_->expert_store().Pack(*model_->options().ops, model_->stream(), expert, t.block);
}

Result<bool> ExpertMoves::Advance(int64_t bytes) {
  if (!busy()) return base::FailedPrecondition("no experts are under way");
  if (bytes <= 0) return base::InvalidArgument(fmt::format("{} bytes of experts", bytes));
  const std::vector<Piece> pieces = NextPieces(bytes);
  if (by_message_) {
    TW_TRY(Travel(pieces));
  } else {
    Fetch(pieces);
  }
  const bool all = std::all_of(transfers_.begin(), transfers_.end(),
                               [this](const Transfer& t) { return t.done == expert_bytes_; });
  if (all) TW_TRY(Switch());
  return all;
}

Status ExpertMoves::Switch() {
  const std::span<FeedForward> experts = model_->experts(layer_);
  ExpertStore& store = model_->expert_store();
  for (const Transfer& t : transfers_)
    if (t.to == group_->rank() && t.block != nullptr)
      store.Attach(t.block, &experts[static_cast<size_t>(t.expert)]);
  TW_TRY(experts_->SwitchLayer(layer_, std::move(slots_)));
  for (size_t e = 0; e < experts.size(); ++e)
    if (experts[e].w1.packed != nullptr && store.block_bytes() > 0 &&
        !experts_->Holds(layer_, static_cast<int64_t>(e)))
      store.Release(&experts[e]);
  layer_ = -1;
  transfers_.clear();
  return {};
}

}  // namespace thalweg::model
