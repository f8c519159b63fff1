// Rows of one sequence scattered over fixed-size blocks of a pool, found through a block table.
#pragma once

#include <cstdint>

#include "tensor/row_format.h"

namespace thalweg::tensor {

struct PagedRows {
  uint8_t* pool = nullptr;          // the first block of the pool
  const int32_t* blocks = nullptr;  // block table of the sequence: logical block -> pool block
  int64_t rows_per_block = 1;
  int64_t block_bytes = 0;
  int64_t row_bytes = 0;
  int64_t width = 0;  // values of a row
  RowFormat format = RowFormat::kBF16;
  int64_t blocks_count = 0;  // entries of the block table: what a device's ops copy
  // The same table in the memory of a device, kept there from step to step; null: not there.
  const int32_t* device_blocks = nullptr;

  uint8_t* Row(int64_t row) const {
    return pool + blocks[row / rows_per_block] * block_bytes + (row % rows_per_block) * row_bytes;
  }
};

}  // namespace thalweg::tensor
