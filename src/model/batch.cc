#include "model/batch.h"

#include <algorithm>

namespace thalweg::model {
namespace {

template <typename T>
void Gather(const std::vector<int64_t>& kept, std::vector<T>* values) {
  for (size_t i = 0; i < kept.size(); ++i) (*values)[i] = (*values)[static_cast<size_t>(kept[i])];
  values->resize(kept.size());
}

// Ids that the device knows alone (EmbedParams::ids).
void NameTokensOfDevice(const Chunk& chunk, std::span<int32_t> ids) {
  if (chunk.newest_slot >= 0) ids.front() = -1 - chunk.newest_slot;
  if (chunk.drafts_at < 0) return;
  for (size_t i = 1; i < ids.size(); ++i) ids[i] = -chunk.drafts_at - static_cast<int32_t>(i);
}

}  // namespace

void Batch::Clear() {
  sequences.clear();
  ids.clear();
  position.clear();
  row_sequence.clear();
  image.clear();
}

void Batch::Append(const SequenceRows& sequence, std::span<const int32_t> tokens,
                   std::span<const uint8_t> marks) {
  const auto number = static_cast<int32_t>(sequences.size());
  sequences.push_back(sequence);
  sequences.back().first_row = rows();
  sequences.back().rows = static_cast<int64_t>(tokens.size());
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  for (int64_t i = 0; i < sequences.back().rows; ++i) position.push_back(sequence.start + i);
  row_sequence.resize(ids.size(), number);
  image.insert(image.end(), marks.begin(), marks.end());
  image.resize(ids.size(), 0);
}

void Batch::SetAngles(const RopeFrequencies& frequencies) {
  plain.Set(position, frequencies.plain);
  compressed.Set(position, frequencies.compressed);
}

void Batch::KeepDecoderRows(const RopeFrequencies& frequencies, std::vector<int64_t>* kept) {
  kept->clear();
  for (SequenceRows& s : sequences) {
    const int64_t skipped = std::clamp<int64_t>(s.decoder_from - s.start, 0, s.rows);
    const auto first = static_cast<int64_t>(kept->size());
    for (int64_t i = skipped; i < s.rows; ++i) kept->push_back(s.first_row + i);
    s.first_row = first;
    s.start += skipped;
    s.rows -= skipped;
  }
  if (static_cast<int64_t>(kept->size()) == rows()) return;
  Gather(*kept, &ids);
  Gather(*kept, &position);
  Gather(*kept, &row_sequence);
  Gather(*kept, &image);
  SetAngles(frequencies);
}

void AppendChunk(const Chunk& chunk, const kvpool::Pool& pool, Batch* batch) {
  batch->Append({.id = chunk.sequence,
                 .start = pool.length(chunk.sequence),
                 .decoder_from = chunk.decoder_from,
                 .logits = chunk.logits,
                 .drafts_at = chunk.drafts_at,
                 .choose = chunk.choose},
                chunk.tokens, chunk.image);
  NameTokensOfDevice(chunk, std::span(batch->ids).last(chunk.tokens.size()));
}

void FillBatch(std::span<const Chunk> chunks, const kvpool::Pool& pool,
               const RopeFrequencies& frequencies, Batch* batch) {
  batch->Clear();
  for (const Chunk& chunk : chunks) AppendChunk(chunk, pool, batch);
  batch->SetAngles(frequencies);
}

}  // namespace thalweg::model
