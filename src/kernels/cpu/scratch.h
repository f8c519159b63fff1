// Memory of one thread that grows to what the largest call needed and stays: hot loops allocate
// nothing. Each purpose has a slot of its own, so that stages of one op never share memory.
#pragma once

#include <cstdint>

namespace thalweg::kernels::cpu {

enum class Slot {
  kInput,      // rows of a product as floats, or as the tiles of experts
  kTilesBF16,  // rows of a product as tiles, by the format of the weights
  kTilesFp8,
  kTilesFp4,
  kTilesInt8,
  kRowPointers,  // where those rows lie
  kPanel,        // a panel of a matrix that was not packed
  kDecoded,      // a panel decoded for many rows
  kProduct,      // results of a product before they are rounded
  kSecondProduct,
  kHidden,  // the down projection's input
  kGroupTiles,
  kSum,  // sums over experts
  kGroups,
  kQuery,
  kAngles,
  kWindowMemo,
  kWindowTags,
  kProbability,
  kValues,
  kPrivateKeys,
  kKeyPointers,
  kLogits,
  kScores,
  kOrder,
  kBlockScores,
  kMix,
  kRow,
  kCount,
};

// At least `bytes` of this thread's memory for `slot`, 64-byte aligned, valid until the slot is
// asked for again by the same thread. New memory is zero, kept memory holds what was left in it.
void* Scratch(Slot slot, int64_t bytes);

}  // namespace thalweg::kernels::cpu
