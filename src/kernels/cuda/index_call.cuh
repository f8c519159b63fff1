// A call of index_select at the released shape: queries, scores, selections, and candidates with
// them, each one kernel.
#pragma once

#include "kernels/cuda/index_codes.cuh"

namespace thalweg::kernels::cuda {

// Scores and selections of `rows` rows from job.first_row on; `p` has the lists of the host.
inline void FastSelectRows(const IndexSelectParams& p, const ScoreJob& staged, int64_t rows,
                           const FastScratch& scratch, Queue* queue) {
  ScoreJob job = staged;
  job.codes = scratch.codes;
  job.best = scratch.best;
  int64_t tile_count = rows;
  int32_t largest = 1;
  // Recordings are of any rows.
  if (p.restrict_to == nullptr && !queue->recording() && HasWarpgroups()) {
    const std::vector<RowTile> tiles = TilesOf(queue->OnHost(p.row_sequence), staged.first_row,
                                               staged.first_row + rows, kFastTileRows);
    for (const RowTile& tile : tiles) largest = std::max(largest, tile.count);
    tile_count = static_cast<int64_t>(tiles.size());
    if (largest > 1) job.tiles = queue->Stage(tiles.data(), tile_count);
  }
  if (HasWarpgroups()) {
    LaunchCodeScores(job, scratch.queries, tile_count, largest, queue);
  } else {
    LaunchFastScores(job, tile_count, queue);
  }
  LaunchSelections(job, rows, p.make_candidates, scratch, queue);
}

// The call.
inline void FastSelect(const IndexSelectParams& p, Queue* queue) {
  constexpr int64_t kPassBytes = int64_t{256} << 20;
  const int64_t* visible = queue->OnHost(p.visible);
  const int64_t longest =
      p.most_visible > 0 ? p.most_visible : *std::max_element(visible, visible + p.rows);
  const int64_t stride = StrideOf(longest);
  FastScratch scratch;
  const int64_t row_bytes =
      LayOut(p, 1, stride, nullptr, &scratch) - LayOut(p, 0, stride, nullptr, &scratch);
  const int64_t pass = std::clamp<int64_t>(kPassBytes / row_bytes, 1, p.rows);
  auto* memory = static_cast<char*>(queue->Scratch(LayOut(p, pass, stride, nullptr, &scratch)));
  if (memory == nullptr) return;
  LayOut(p, pass, stride, memory, &scratch);
  if (HasWarpgroups()) {
    PrepareQueryCodes(p, scratch.done, scratch.queries, queue);
  } else {
    PrepareQueries(p, scratch.done, queue);
  }
  ScoreJob job = StageScores(queue, p, stride);
  for (; job.first_row < p.rows; job.first_row += pass) {
    FastSelectRows(p, job, std::min(pass, p.rows - job.first_row), scratch, queue);
  }
}

}  // namespace thalweg::kernels::cuda
