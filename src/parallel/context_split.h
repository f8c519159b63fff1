// The rows of a prefill step over the ranks of an attention group (spec/decoding.md 7.4): pieces of
// consecutive rows, cut so that the dearest piece is as cheap as it can be. A late row costs more
// than an early one, for it scores more index keys, so later pieces have fewer rows. Consecutive
// pieces need the shortest halos, and what they compress is gathered in the order of ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace thalweg::parallel {

// Work of a row at `position`: fixed + per_position * position, in any unit (multiplications).
struct RowCost {
  int64_t fixed = 1;
  int64_t per_position = 0;
};

// Positions [begin, end) of one sequence.
struct SequencePart {
  int32_t sequence = 0;  // index into the step's sequences
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const SequencePart&) const = default;
};

struct ContextSplit {
  // By rank: its parts, in the order of sequences. Ranks may have none.
  std::vector<std::vector<SequencePart>> ranks;
};

int64_t CostOf(std::span<const SequencePart> parts, const RowCost& cost);

// rows: the step's rows of each sequence, whose begin may be anywhere (behind a prefix hit). Cuts
// inside a sequence are at multiples of `group` positions (of the compressor's groups), so that no
// group is torn. loads: what each rank has to do beside, in the unit of the cost; empty: nothing.
// Errors: positions, costs or loads out of range, ranks < 1, group < 1.
Result<ContextSplit> SplitContext(std::span<const SequencePart> rows, const RowCost& cost,
                                  int ranks, int64_t group, std::span<const int64_t> loads = {});

// Rows of another rank that a rank's window looks back at.
struct Halo {
  int from = 0;  // rank
  SequencePart rows;
  bool operator==(const Halo&) const = default;
};

// What rank `rank` needs of others before its parts: the last `look_back` rows (window - 1) before
// each part, as far as this step makes them, ascending; each row once.
std::vector<Halo> HaloOf(const ContextSplit& split, int rank, int64_t look_back);

}  // namespace thalweg::parallel
