// How rows meet experts: lists made on the device.
#pragma once

#include <cstdint>

#include "kernels/cuda/queue.h"
#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

// A pair of a row and one of its experts is a slot: row * topk + i. Slots behind rows * topk are
// rows of the shared expert, which counts as one more expert behind the last.
struct ExpertTile {
  int32_t expert = 0;
  int32_t first = 0;  // in ExpertLists::slots
  int32_t count = 0;
  int32_t group = 0;  // groups of 8 columns in the tiles before
};

struct ExpertLists {
  int32_t* slots = nullptr;     // [rows * (topk + 1)], by expert
  ExpertTile* tiles = nullptr;  // the shared expert's first, they are the largest
  int32_t* tiles_n = nullptr;
};

// A call whose lists are to be made.
struct ExpertListJob {
  const int32_t* chosen = nullptr;  // [rows, slots / rows]
  int slots = 0, rows = 0, experts = 0, tile_rows = 0;
  ExpertLists lists;
  int shared_rows = tile_rows;  // of a tile of the shared expert
};

// The most tiles of `tile_rows` slots, and groups of 8 columns, there can be.
int64_t MostExpertGroups(int64_t rows, int64_t topk, int64_t experts);
int64_t MostExpertTiles(int64_t rows, int64_t topk, int64_t experts, int tile_rows);

// Fills the lists. chosen: [rows, topk] in device memory. shared_rows: of a tile of the shared
// expert, at least tile_rows; 0: tile_rows.
void ListExperts(Queue* queue, const int32_t* chosen, int64_t rows, int64_t topk, int64_t experts,
                 int tile_rows, const ExpertLists& lists, int shared_rows = 0);

// The table of weights in device memory, [experts + 1], the shared expert's last: sent when it
// first comes and when it has changed.
const FeedForward* ExpertTable(Queue* queue, const ExpertsParams& p);

}  // namespace thalweg::kernels::cuda
