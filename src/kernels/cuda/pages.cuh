// Paged rows as kernels find them.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/queue.h"
#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

// Rows of a sequence and of a block are counted in 32 bits, where a division takes a tenth.
__device__ inline const uint8_t* RowAt(const PagedRows& rows, int64_t row) {
  const auto at = static_cast<uint32_t>(row), each = static_cast<uint32_t>(rows.rows_per_block);
  return rows.pool + rows.blocks[at / each] * rows.block_bytes + at % each * rows.row_bytes;
}

// Sequences that the rows of a call belong to.
inline int64_t SequencesOf(const int32_t* row_sequence, int64_t rows) {
  return rows == 0 ? 0 : *std::max_element(row_sequence, row_sequence + rows) + 1;
}

// The same with block tables on the device. What is a list of the step already has them.
inline const PagedRows* StagePages(Queue* queue, const PagedRows* sequences, int64_t count) {
  if (queue->OnHost(sequences) != sequences) return sequences;
  std::vector<PagedRows> staged(sequences, sequences + count);
  for (PagedRows& rows : staged) {
    rows.blocks = rows.device_blocks != nullptr ? rows.device_blocks
                                                : queue->Stage(rows.blocks, rows.blocks_count);
  }
  return queue->Stage(staged.data(), count);
}

}  // namespace thalweg::kernels::cuda
