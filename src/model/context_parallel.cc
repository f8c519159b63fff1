// Who runs which rows of a step.
#include "model/context_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/math.h"
#include "model/context_step.h"
#include "model/run.h"
#include "parallel/limits.h"

namespace thalweg::model {
namespace {

using parallel::RowCost;
using parallel::SequencePart;

constexpr int64_t kGroup = 2;  // tokens of the longest compressed group: pieces begin at one

// Multiplications of a row: its weights, its window and selection, and index scoring, which grows
// with the position. Where candidates are given it grows no further.
RowCost CostOfRow(const ModelParts& parts, bool decoder) {
  const checkpoint::Config& c = parts.config;
  const checkpoint::ActiveParameters active = checkpoint::CountActiveParameters(c);
  const int64_t layers = decoder ? c.num_hidden_layers : c.DecoderBegin();
  RowCost cost{.fixed = decoder ? active.decode : active.prefill};
  cost.fixed += layers * (c.sliding_window + c.index_topk) * 2 * c.num_attention_heads * c.head_dim;
  for (int64_t i = 0; i < layers; ++i) {
    const checkpoint::LayerPlan& plan = parts.plans[static_cast<size_t>(i)];
    if (!plan.owns_index || plan.uses_candidates) continue;
    cost.per_position += c.index_n_heads * c.index_head_dim / plan.ratio;
  }
  return cost;
}

int64_t CostOfRows(int64_t start, int64_t rows, const RowCost& cost) {
  const SequencePart part{0, start, start + rows};
  return parallel::CostOf({&part, 1}, cost);
}

}  // namespace

// Chunks that are shared, in the order of owners.
struct ContextParallel::Decision {
  std::vector<SharedSequence> shared;
  std::vector<int64_t> kept;  // rows of each rank that are not
  RowCost cost;
  bool draft_context = false;
};

Result<std::unique_ptr<ContextParallel>> ContextParallel::Make(comm::Communicator* ranks,
                                                               parallel::Group group,
                                                               const ContextOptions& options,
                                                               comm::Communicator* devices) {
  if (group.first < 0 || group.size < 1 || group.first + group.size > ranks->size() ||
      !group.Has(ranks->rank()))
    return base::InvalidArgument(fmt::format("rank {} of {} is not among {} from {}", ranks->rank(),
                                             ranks->size(), group.size, group.first));
  if (!ranks->on_host())
    return base::Unsupported("ranks that share the rows of a prompt meet on the host");
  return std::unique_ptr<ContextParallel>(new ContextParallel(ranks, devices, group, options));
}

ContextParallel::ContextParallel(comm::Communicator* ranks, comm::Communicator* devices,
                                 parallel::Group group, const ContextOptions& options)
    : ranks_(ranks),
      group_(group),
      options_(options),
      window_{RowTransfer(ranks, devices, group), RowTransfer(ranks, devices, group)},
      groups_(ranks, devices, group),
      rest_(ranks, devices, group) {}

ContextParallel::~ContextParallel() = default;

Status ContextParallel::Fail(Status status) {
  if (status_.ok()) {
    status_ = std::move(status);
    ranks_->Fail(status_);
  }
  return status_;
}

ContextParallel::Copy* ContextParallel::Find(int owner, int32_t sequence) {
  for (Copy& copy : copies_)
    if (copy.owner == owner && copy.sequence == sequence) return &copy;
  return nullptr;
}

// Whether the others' copy of an own sequence is as it is here.
bool ContextParallel::Current(const kvpool::Pool& pool, kvpool::SequenceId id) {
  const Copy* copy = Find(place(), static_cast<int32_t>(id));
  return copy != nullptr && copy->length == pool.length(id) && copy->version == pool.version(id);
}

ContextParallel::Hello ContextParallel::Greet(const Run& run, std::span<const Chunk> chunks,
                                              std::vector<size_t>* offered) {
  Hello hello;
  offered->clear();
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    const auto rows = static_cast<int64_t>(chunk.tokens.size());
    const int64_t start = run.pool.length(chunk.sequence);
    if (chunk.draft_context) hello.draft_context = 1;
    if (rows < options_.least_rows || hello.offers == kContextCopies) {
      hello.rows += rows;
      hello.load += CostOfRows(start, rows, CostOfRow(run.parts, true));
      continue;
    }
    offered->push_back(i);
    hello.offered[static_cast<size_t>(hello.offers++)] = {
        .sequence = static_cast<int32_t>(chunk.sequence),
        .anew = Current(run.pool, chunk.sequence) ? 0 : 1,
        .start = start,
        .rows = rows,
        .decoder_from = chunk.decoder_from};
  }
  if (!run.parts.weights.draft.has_value()) hello.draft_context = 0;
  return hello;
}

Status ContextParallel::Meet(const Hello& own, std::vector<Hello>* all) {
  all->assign(static_cast<size_t>(size()), {});
  (*all)[static_cast<size_t>(place())] = own;
  std::vector<comm::Outgoing> out;
  std::vector<comm::Incoming> in;
  for (int k = 0; k < group_.size; ++k) {
    if (k == place()) continue;
    out.push_back({group_.first + k, std::as_bytes(std::span(&own, 1))});
    in.push_back(
        {group_.first + k, std::as_writable_bytes(std::span(&(*all)[static_cast<size_t>(k)], 1))});
  }
  return ranks_->Exchange({comm::Operation::kExchange, out, in});
}

Status ContextParallel::CheckHello(const Run& run, const Hello& hello) const {
  const ModelOptions& options = run.parts.options;
  bool good = hello.rows >= 0 && hello.rows <= options.max_rows && hello.load >= 0 &&
              hello.load <= parallel::kMostLoad && hello.offers >= 0 &&
              hello.offers <= kContextCopies;
  for (int64_t i = 0; good && i < hello.offers; ++i) {
    const Offer& offer = hello.offered[static_cast<size_t>(i)];
    good = offer.sequence >= 0 && offer.sequence < options.max_sequences && offer.rows > 0 &&
           offer.rows <= options.max_rows && offer.start >= 0 &&
           offer.start <= run.config().max_position_embeddings - offer.rows &&
           offer.decoder_from >= 0;
  }
  return good ? Status() : base::Internal("another rank says of its step what cannot be");
}

// A place in the table for each offered chunk: those that go on keep theirs; others take the ones
// that were not used for the longest time. Chunks that find none stay with their rank.
void ContextParallel::TakeCopies(const std::vector<Hello>& hellos, Decision* decision) {
  const auto each = [&](auto&& visit) {
    for (size_t k = 0; k < hellos.size(); ++k)
      for (size_t i = 0; i < static_cast<size_t>(hellos[k].offers); ++i)
        visit(static_cast<int>(k), i, hellos[k].offered[i]);
  };
  each([&](int owner, size_t, const Offer& offer) {
    Copy* copy = Find(owner, offer.sequence);
    if (copy == nullptr) return;
    if (offer.anew == 0) copy->used = step_;
    if (offer.anew == 1) *copy = {};
  });
  each([&](int owner, size_t i, const Offer& offer) {
    Copy* copy = Find(owner, offer.sequence);
    if (copy == nullptr) {
      copy = std::min_element(copies_.begin(), copies_.end(),
                              [](const Copy& a, const Copy& b) { return a.used < b.used; });
      if (copy->used == step_) {
        decision->kept[static_cast<size_t>(owner)] += offer.rows;
        return;
      }
      *copy = {.owner = owner, .sequence = offer.sequence, .length = offer.start, .used = step_};
    }
    decision->shared.push_back({.owner = owner,
                                .offer = i,
                                .copy = static_cast<size_t>(copy - copies_.data()),
                                .start = offer.start,
                                .end = offer.start + offer.rows,
                                .decoder_from = offer.decoder_from});
  });
}

namespace {

// Rows of each rank: what it keeps, and its parts.
bool Fits(const parallel::ContextSplit& split, std::span<const int64_t> kept, int64_t most) {
  for (size_t k = 0; k < kept.size(); ++k) {
    int64_t rows = kept[k];
    for (const SequencePart& part : split.ranks[k]) rows += part.end - part.begin;
    if (rows > most) return false;
  }
  return true;
}

void SetPieces(const parallel::ContextSplit& split, std::vector<SharedSequence>* shared,
               std::vector<int64_t>* kept) {
  for (SharedSequence& q : *shared) q.pieces.assign(split.ranks.size(), {});
  for (size_t k = 0; k < split.ranks.size(); ++k)
    for (const SequencePart& part : split.ranks[k])
      (*shared)[static_cast<size_t>(part.sequence)].pieces[k] = {part.begin, part.end};
  // A chunk that stays whole with its rank needs nobody.
  std::erase_if(*shared, [kept](const SharedSequence& q) {
    const auto owner = static_cast<size_t>(q.owner);
    if (q.pieces[owner].rows() < q.end - q.start) return false;
    (*kept)[owner] += q.end - q.start;
    return true;
  });
}

}  // namespace

// The same on all ranks, for all of it follows from what all have said.
Result<ContextParallel::Decision> ContextParallel::Decide(const Run& run,
                                                          const std::vector<Hello>& hellos) {
  Decision decision;
  std::vector<int64_t> loads;
  for (const Hello& hello : hellos) {
    TW_TRY(CheckHello(run, hello));
    decision.draft_context = decision.draft_context || hello.draft_context != 0;
    decision.kept.push_back(hello.rows);
    loads.push_back(hello.load);
  }
  TakeCopies(hellos, &decision);
  std::vector<SharedSequence>& shared = decision.shared;
  std::vector<int64_t>& kept = decision.kept;
  const bool decoder = std::all_of(shared.begin(), shared.end(), [](const SharedSequence& q) {
    return q.decoder_from <= q.start;
  });
  decision.cost = CostOfRow(run.parts, decoder);
  // Chunks that found no place are rows that stay, at the price of a row without a past.
  for (size_t k = 0; k < hellos.size(); ++k)
    loads[k] += (kept[k] - hellos[k].rows) * decision.cost.fixed;
  std::vector<SequencePart> rows;
  std::vector<int64_t> totals = loads;
  for (const SharedSequence& q : shared) {
    rows.push_back({static_cast<int32_t>(rows.size()), q.start, q.end});
    totals[static_cast<size_t>(q.owner)] += parallel::CostOf({&rows.back(), 1}, decision.cost);
  }
  const auto sum = static_cast<double>(std::accumulate(totals.begin(), totals.end(), int64_t{0}));
  const auto most = static_cast<double>(*std::max_element(totals.begin(), totals.end()));
  if (most * static_cast<double>(size()) <= options_.least_gain * sum) {
    shared.clear();
    return decision;
  }
  const int64_t max_rows = run.parts.options.max_rows;
  TW_ASSIGN(parallel::ContextSplit split,
            parallel::SplitContext(rows, decision.cost, group_.size, kGroup, loads));
  // Early rows are cheap, so there may be more of them than a rank has room for.
  if (!Fits(split, kept, max_rows)) {
    TW_ASSIGN(split, parallel::SplitContext(rows, {}, group_.size, kGroup, kept));
  }
  if (!Fits(split, kept, max_rows)) {
    shared.clear();
    return decision;
  }
  SetPieces(split, &shared, &kept);
  return decision;
}

// Notes that rows [begin, end) of an own sequence are written, by all ranks or by this one alone.
void ContextParallel::KeepValid(const kvpool::Pool& pool, kvpool::SequenceId id, int64_t begin,
                                int64_t end, bool shared) {
  const int64_t tokens = pool.geometry().block_tokens;
  const auto blocks = pool.BlocksOf(id);
  begin = std::max(begin, pool.write_from(id));
  if (begin >= end) return;
  for (int64_t i = begin / tokens; i <= (end - 1) / tokens; ++i) {
    int64_t& valid = valid_[static_cast<size_t>(blocks[static_cast<size_t>(i)])];
    const int64_t first = std::max<int64_t>(0, begin - i * tokens);
    if (!shared) valid = std::min(valid, first);
    if (shared && first <= valid) valid = std::min(tokens, end - i * tokens);
  }
}

Result<std::unique_ptr<ContextStep>> ContextParallel::Agree(Run& run,
                                                            std::span<const Chunk> chunks) {
  ++step_;
  if (valid_.empty()) valid_.assign(static_cast<size_t>(run.pool.blocks()), 0);
  std::vector<size_t> offered;
  std::vector<Hello> hellos;
  TW_TRY(Meet(Greet(run, chunks, &offered), &hellos));
  TW_ASSIGN(Decision decision, Decide(run, hellos));
  run.draft_context = decision.draft_context;
  auto step = std::make_unique<ContextStep>(this);
  step->sequences_ = std::move(decision.shared);
  step->kept_ = decision.kept;
  step->shared_of_.assign(chunks.size(), -1);
  for (size_t i = 0; i < step->sequences_.size(); ++i) {
    SharedSequence& q = step->sequences_[i];
    if (q.owner == place()) step->shared_of_[offered[q.offer]] = static_cast<int32_t>(i);
    q.id = q.owner == place() ? chunks[offered[q.offer]].sequence
                              : run.pool.foreign(static_cast<int64_t>(q.copy));
  }
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (step->shared_of_[i] >= 0) continue;
    const int64_t start = run.pool.length(chunks[i].sequence);
    KeepValid(run.pool, chunks[i].sequence, start,
              start + static_cast<int64_t>(chunks[i].tokens.size()), false);
  }
  if (step->sequences_.empty()) return std::unique_ptr<ContextStep>();
  for (RowTransfer* rows : {&window_[0], &window_[1], &groups_, &rest_})
    rows->Start(run.memory(), run.stream());
  TW_TRY(step->ExchangeOffers(run, chunks, hellos));
  step->FillBatch(run, chunks);
  ++counts_.steps;
  for (const SharedSequence& q : step->sequences_) {
    const Piece& piece = q.pieces[static_cast<size_t>(place())];
    counts_.shared_rows += q.end - q.start;
    counts_.rows += piece.rows();
    if (!piece.empty()) counts_.work += CostOfRows(piece.begin, piece.rows(), decision.cost);
  }
  return step;
}

std::unique_ptr<ContextStep> ContextParallel::Begin(Run& run, std::span<const Chunk> chunks) {
  if (!status_.ok()) return nullptr;
  Result<std::unique_ptr<ContextStep>> step = Agree(run, chunks);
  if (step.ok()) return std::move(*step);
  static_cast<void>(Fail(step.status()));
  return nullptr;
}

ContextCounts ContextParallel::counts() const {
  const std::lock_guard lock(mutex_);
  return told_;
}

void ContextParallel::Commit(kvpool::Pool& pool, const ContextStep* step) {
  if (step == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    told_ = counts_;
  }
  for (const SharedSequence& q : step->sequences_) {
    const bool own = q.owner == place();
    if (!own) pool.Commit(q.id, q.end);
    copies_[q.copy].length = q.end;
    copies_[q.copy].blocks = base::CeilDiv(q.end, pool.geometry().block_tokens);
    if (own) copies_[q.copy].version = pool.version(q.id);
  }
}

}  // namespace thalweg::model
