// What ranks hand one another before the layers: chunks, and what the others lack of their
// sequences.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/math.h"
#include "model/context_step.h"
#include "model/run.h"

namespace thalweg::model {
namespace {

parallel::OfferedLogits OfferedOf(LogitRows logits) {
  return static_cast<parallel::OfferedLogits>(logits);
}

parallel::OfferLimits LimitsOf(const Run& run) {
  const kvpool::Geometry& g = run.pool.geometry();
  const auto mapped = static_cast<int64_t>(run.parts.token_map.size());
  const int64_t vocab = run.config().vocab_size;
  return {.chunks = kContextCopies,
          .sequences = run.parts.options.max_sequences,
          .positions = run.config().max_position_embeddings,
          .vocab = mapped == 0 ? vocab : std::min(vocab, mapped),
          .blocks = run.pool.blocks(),
          .block_tokens = g.block_tokens,
          .block_bytes = g.BlockBytes(),
          .state_bytes = g.SlotBytes()};
}

}  // namespace

// Of an own chunk; `table`: entries of the block table that the others have; `valid` by block.
parallel::OfferedChunk ContextStep::Offer(Run& run, const Chunk& chunk, bool anew,
                                          int64_t table) const {
  kvpool::Pool& pool = run.pool;
  const kvpool::Geometry& g = pool.geometry();
  const kvpool::SequenceId id = chunk.sequence;
  parallel::OfferedChunk out{.sequence = static_cast<int32_t>(id),
                             .start = pool.length(id),
                             .decoder_from = chunk.decoder_from,
                             .logits = OfferedOf(chunk.logits),
                             .anew = anew,
                             .encoder_floor = pool.encoder_floor(id),
                             .decoder_floor = pool.decoder_floor(id),
                             .write_from = pool.write_from(id),
                             .tokens = {chunk.tokens.begin(), chunk.tokens.end()},
                             .image = {chunk.image.begin(), chunk.image.end()},
                             .first_block = table};
  const auto blocks =
      pool.BlocksOf(id).first(static_cast<size_t>(base::CeilDiv(out.end(), g.block_tokens)));
  const auto rest = blocks.subspan(static_cast<size_t>(table));
  out.blocks.assign(rest.begin(), rest.end());
  if (anew && out.start > 0) {
    out.state.resize(static_cast<size_t>(g.SlotBytes()));
    pool.ReadState(id, out.state);
  }
  AddStaleRows(run, blocks, &out);
  return out;
}

// Rows of blocks that the chunk's rows look at and the others lack; from now on they have them.
void ContextStep::AddStaleRows(Run& run, std::span<const int32_t> blocks,
                               parallel::OfferedChunk* out) const {
  const kvpool::Geometry& g = run.pool.geometry();
  const int64_t needed = std::max(out->start, std::min(out->write_from, out->end()));
  for (int64_t i = 0; i * g.block_tokens < needed; ++i) {
    const int32_t block = blocks[static_cast<size_t>(i)];
    const int64_t tokens = std::min(g.block_tokens, needed - i * g.block_tokens);
    int64_t& valid = group_->valid_[static_cast<size_t>(block)];
    if (valid >= tokens) continue;
    valid = tokens;
    out->stale.push_back(static_cast<int32_t>(i));
    out->rows.resize(out->rows.size() + static_cast<size_t>(g.BlockBytes()));
    run.pool.ReadBlock(block, std::span(out->rows).last(static_cast<size_t>(g.BlockBytes())));
  }
}

// The copy of another rank's sequence becomes what that rank has.
void ContextStep::TakeOffer(Run& run, const SharedSequence& q) const {
  const parallel::OfferedChunk& c = q.chunk;
  kvpool::Pool& pool = run.pool;
  if (c.anew)
    pool.Restart(q.id, {.length = c.start,
                        .encoder_floor = c.encoder_floor,
                        .decoder_floor = c.decoder_floor,
                        .write_from = c.write_from});
  pool.set_decoder_floor(q.id, c.decoder_floor);
  if (!c.state.empty()) pool.WriteState(q.id, c.state);
  const int64_t away = (q.owner - place_ + size()) % size();
  std::vector<int32_t> blocks;
  for (const int32_t block : c.blocks)
    blocks.push_back(static_cast<int32_t>(away * pool.blocks()) + block);
  TW_CHECK(pool.Attach(q.id, blocks).ok());
  const auto bytes = static_cast<size_t>(pool.geometry().BlockBytes());
  for (size_t i = 0; i < c.stale.size(); ++i)
    pool.WriteBlock(pool.BlocksOf(q.id)[static_cast<size_t>(c.stale[i])],
                    std::span(c.rows).subspan(i * bytes, bytes));
}

// A rank must say in an offer what it said before.
Status ContextStep::CheckOffer(const Run& run, const SharedSequence& q,
                               const ContextParallel::Offer& said) const {
  const parallel::OfferedChunk& c = q.chunk;
  const bool same = c.sequence == said.sequence && c.start == said.start &&
                    static_cast<int64_t>(c.tokens.size()) == said.rows &&
                    c.anew == (said.anew != 0) && c.decoder_from == said.decoder_from;
  const auto table = static_cast<int64_t>(run.pool.BlocksOf(q.id).size());
  if (same && c.first_block == (c.anew ? 0 : table) && (c.anew || run.pool.length(q.id) == c.start))
    return {};
  return base::Internal(fmt::format("place {} offers other rows of sequence {} than it said",
                                    q.owner, said.sequence));
}

Status ContextStep::ReadOffers(Run& run, const std::vector<ContextParallel::Hello>& hellos,
                               int owner, std::span<const std::byte> bytes) {
  TW_ASSIGN(std::vector<parallel::OfferedChunk> chunks,
            parallel::DecodeOffer(bytes, LimitsOf(run)));
  size_t next = 0;
  for (SharedSequence& q : sequences_) {
    if (q.owner != owner) continue;
    if (next == chunks.size()) return base::Internal("fewer chunks are offered than were said");
    q.chunk = std::move(chunks[next++]);
    q.logits = static_cast<LogitRows>(q.chunk.logits);
    TW_TRY(CheckOffer(run, q, hellos[static_cast<size_t>(owner)].offered[q.offer]));
    TakeOffer(run, q);
  }
  return next == chunks.size() ? Status()
                               : base::Internal("more chunks are offered than were said");
}

Status ContextStep::ExchangeOffers(Run& run, std::span<const Chunk> chunks,
                                   const std::vector<ContextParallel::Hello>& hellos) {
  std::vector<parallel::OfferedChunk> own;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (shared_of_[i] < 0) continue;
    SharedSequence& q = sequences_[static_cast<size_t>(shared_of_[i])];
    const bool anew = hellos[static_cast<size_t>(place_)].offered[q.offer].anew != 0;
    own.push_back(Offer(run, chunks[i], anew, anew ? 0 : group_->copies_[q.copy].blocks));
    q.logits = chunks[i].logits;
  }
  std::vector<std::byte> body;
  if (!own.empty()) parallel::EncodeOffer(own, &body);
  TW_TRY(Spread(body));
  group_->counts_.bytes += heads_.bytes_out();
  for (int k = 0; k < size(); ++k)
    if (k != place_ && !heads_.in(k).empty()) TW_TRY(ReadOffers(run, hellos, k, heads_.in(k)));
  size_t next = 0;
  for (SharedSequence& q : sequences_)
    if (q.owner == place_) q.chunk = std::move(own[next++]);
  return {};
}

// Lengths first, then what they are of, to everybody.
Status ContextStep::Spread(const std::vector<std::byte>& body) {
  std::vector<bool> gives(static_cast<size_t>(size()));
  for (const SharedSequence& q : sequences_) gives[static_cast<size_t>(q.owner)] = true;
  const auto length = static_cast<int64_t>(body.size());
  const auto bytes = std::as_bytes(std::span(&length, 1));
  for (int k = 0; k < size(); ++k) {
    if (k == place_) continue;
    if (gives[static_cast<size_t>(place_)]) heads_.out(k).assign(bytes.begin(), bytes.end());
    if (gives[static_cast<size_t>(k)]) heads_.Expect(k, sizeof(int64_t));
  }
  TW_TRY(heads_.Exchange());
  for (int k = 0; k < size(); ++k) {
    if (k == place_) continue;
    heads_.out(k) = body;
    if (!gives[static_cast<size_t>(k)]) continue;
    int64_t expected = 0;
    std::memcpy(&expected, heads_.in(k).data(), sizeof(expected));
    if (expected < 1 || expected > kMostOfferBytes)
      return base::Internal(fmt::format("place {} offers {} bytes", k, expected));
    heads_.Expect(k, expected);
  }
  return heads_.Exchange();
}

// Chunks that stay, whole; then this rank's pieces.
void ContextStep::FillBatch(Run& run, std::span<const Chunk> chunks) {
  run.batch.Clear();
  for (size_t i = 0; i < chunks.size(); ++i)
    if (shared_of_[i] < 0) AppendChunk(chunks[i], run.pool, &run.batch);
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const Piece& piece = sequences_[i].pieces[static_cast<size_t>(place_)];
    if (!piece.empty()) AppendPiece(i, piece, &run.batch);
  }
  run.batch.SetAngles(run.parts.frequencies);
}

void ContextStep::AppendPiece(size_t sequence, const Piece& piece, Batch* batch) {
  SharedSequence& q = sequences_[sequence];
  q.first_row = batch->rows();
  const auto at = static_cast<size_t>(piece.begin - q.chunk.start);
  const auto rows = static_cast<size_t>(piece.rows());
  const bool last = piece.end == q.end || q.logits == LogitRows::kAll;
  batch->Append({.id = q.id,
                 .start = piece.begin,
                 .decoder_from = q.decoder_from,
                 .logits = last ? q.logits : LogitRows::kNone,
                 .shared = static_cast<int32_t>(sequence)},
                std::span(q.chunk.tokens).subspan(at, rows),
                q.chunk.image.empty() ? std::span<const uint8_t>()
                                      : std::span(q.chunk.image).subspan(at, rows));
}

// Logits of pieces go home, where they are put in the order of chunks.
void ContextStep::ShareLogits(Run& run, std::span<const Chunk> chunks, std::vector<float>* output) {
  if (!ok()) return;
  const auto vocab = static_cast<size_t>(run.config().vocab_size);
  for (int k = 0; k < size(); ++k) {
    heads_.out(k).clear();
    heads_.Expect(k, 0);
  }
  std::vector<std::span<const float>> kept;                    // of chunks that stay
  std::vector<std::span<const float>> own(sequences_.size());  // of own pieces
  size_t next = 0;
  for (const SequenceRows& s : run.batch.sequences) {
    const auto rows = static_cast<size_t>(s.logit_rows());
    const auto part = std::span(logits_).subspan(next, rows * vocab);
    next += part.size();
    if (s.shared < 0) kept.push_back(part);
    if (s.shared < 0) continue;
    own[static_cast<size_t>(s.shared)] = part;
    const int owner = sequences_[static_cast<size_t>(s.shared)].owner;
    const auto bytes = std::as_bytes(part);
    if (owner != place_)
      heads_.out(owner).insert(heads_.out(owner).end(), bytes.begin(), bytes.end());
  }
  for (int k = 0; k < size(); ++k) {
    int64_t rows = 0;
    for (const SharedSequence& q : sequences_)
      if (q.owner == place_ && k != place_) rows += q.LogitRowsOf(k);
    heads_.Expect(k, rows * static_cast<int64_t>(vocab * sizeof(float)));
  }
  Note(heads_.Exchange());
  if (!ok()) return;
  group_->counts_.bytes += heads_.bytes_out();
  Assemble(chunks, kept, own, vocab, output);
}

void ContextStep::Assemble(std::span<const Chunk> chunks,
                           const std::vector<std::span<const float>>& kept,
                           const std::vector<std::span<const float>>& own, size_t vocab,
                           std::vector<float>* output) const {
  output->clear();
  std::vector<size_t> taken(static_cast<size_t>(size()));
  size_t next = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (shared_of_[i] < 0) {
      output->insert(output->end(), kept[next].begin(), kept[next].end());
      ++next;
      continue;
    }
    const auto at = static_cast<size_t>(shared_of_[i]);
    for (int k = 0; k < size(); ++k) {
      if (k == place_) {
        output->insert(output->end(), own[at].begin(), own[at].end());
        continue;
      }
      const size_t count = static_cast<size_t>(sequences_[at].LogitRowsOf(k)) * vocab;
      const size_t begin = output->size();
      output->resize(begin + count);
      size_t& from = taken[static_cast<size_t>(k)];
      if (count > 0)
        std::memcpy(output->data() + begin, heads_.in(k).data() + from, count * sizeof(float));
      from += count * sizeof(float);
    }
  }
}

}  // namespace thalweg::model
