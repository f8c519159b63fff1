// Paged rows as kernels find them.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/queue.h"
#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

__device__ inline const uint8_t* RowAt(const PagedRows& rows, int64_t row) {
  return rows.pool + rows.blocks[row / rows.rows_per_block] * rows.block_bytes +
         (row % rows.rows_per_block) * rows.row_bytes;
}

// Sequences that the rows of a call belong to.
inline int64_t SequencesOf(const int32_t* row_sequence, int64_t rows) {
  return rows == 0 ? 0 : *std::max_element(row_sequence, row_sequence + rows) + 1;
}

// The same with block tables on the device.
inline const PagedRows* StagePages(Queue* queue, const PagedRows* sequences, int64_t count) {
  std::vector<PagedRows> staged(sequences, sequences + count);
  for (PagedRows& rows : staged) rows.blocks = queue->Stage(rows.blocks, rows.blocks_count);
  return queue->Stage(staged.data(), count);
}

}  // namespace thalweg::kernels::cuda
