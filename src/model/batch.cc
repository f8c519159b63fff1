#include "model/batch.h"

#include <algorithm>

namespace thalweg::model {
namespace {

template <typename T>
void Gather(const std::vector<int64_t>& kept, std::vector<T>* values) {
  for (size_t i = 0; i < kept.size(); ++i) (*values)[i] = (*values)[static_cast<size_t>(kept[i])];
  values->resize(kept.size());
}

void AppendChunk(const Chunk& chunk, int64_t start, Batch* batch) {
  const auto count = static_cast<int64_t>(chunk.tokens.size());
  const auto sequence = static_cast<int32_t>(batch->sequences.size());
  batch->sequences.push_back(
      {chunk.sequence, batch->rows(), count, start, chunk.decoder_from, chunk.logits});
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    batch->ids.push_back(chunk.tokens[at]);
    batch->position.push_back(start + i);
    batch->row_sequence.push_back(sequence);
    batch->image.push_back(chunk.image.empty() ? 0 : chunk.image[at]);
  }
}

}  // namespace

void Batch::SetAngles(const RopeFrequencies& frequencies) {
  plain.Set(position, frequencies.plain);
  compressed.Set(position, frequencies.compressed);
}

std::vector<int64_t> Batch::KeepDecoderRows(const RopeFrequencies& frequencies) {
  std::vector<int64_t> kept;
  for (SequenceRows& s : sequences) {
    const int64_t skipped = std::clamp<int64_t>(s.decoder_from - s.start, 0, s.rows);
    const auto first = static_cast<int64_t>(kept.size());
    for (int64_t i = skipped; i < s.rows; ++i) kept.push_back(s.first_row + i);
    s.first_row = first;
    s.start += skipped;
    s.rows -= skipped;
  }
  Gather(kept, &ids);
  Gather(kept, &position);
  Gather(kept, &row_sequence);
  Gather(kept, &image);
  SetAngles(frequencies);
  return kept;
}

Batch MakeBatch(std::span<const Chunk> chunks, const kvpool::Pool& pool,
                const RopeFrequencies& frequencies) {
  Batch batch;
  for (const Chunk& chunk : chunks) AppendChunk(chunk, pool.length(chunk.sequence), &batch);
  batch.SetAngles(frequencies);
  return batch;
}

}  // namespace thalweg::model
