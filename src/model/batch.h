// The rows of one step, flattened: which token, where, of which sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kvpool/pool.h"
#include "model/rope.h"

namespace thalweg::model {

enum class LogitRows {
  kNone,
  kLast,  // of the chunk's last token
  kAll,   // of every token; needs the whole chunk in the decoder
};

// New tokens of one sequence, appended at its current length.
struct Chunk {
  kvpool::SequenceId sequence = {};
  std::span<const int32_t> tokens = {};
  std::span<const uint8_t> image = {};  // nonzero: inside an image span; empty: all text
  // Rows at positions below run the encoder only (bounded replay, model/replay.h). 0: every row
  // runs everything.
  int64_t decoder_from = 0;
  LogitRows logits = LogitRows::kLast;
  // Whether the draft module may read these rows. A step in which no chunk asks for it leaves its
  // context out: blocks that are drafted later see what comes behind.
  bool draft_context = true;
  // Of a device (Model::Launch). newest_slot >= 0: the first row's token is the one that was chosen
  // last for this slot, whatever `tokens` holds. drafts_at >= 0: rows behind the first run on the
  // drafts that were made for a slot (Model::DraftsAt). choose.slot >= 0: tokens are chosen from
  // the rows' logits, `position` being the first of them; the last that comes out is kept for that
  // slot.
  int32_t newest_slot = -1;
  int32_t drafts_at = -1;
  kernels::ChooseRow choose = {};
};

// The rows of one sequence within a batch: contiguous and ascending.
struct SequenceRows {
  kvpool::SequenceId id = {};
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t start = 0;  // absolute position of first_row
  int64_t decoder_from = 0;
  LogitRows logits = LogitRows::kLast;
  int32_t drafts_at = -1;
  kernels::ChooseRow choose = {};
  int32_t shared = -1;  // >= 0: a piece of what several ranks run (model/context_step.h)

  // Rows with logits.
  int64_t logit_rows() const {
    if (logits == LogitRows::kNone) return 0;
    return logits == LogitRows::kAll ? rows : std::min<int64_t>(rows, 1);
  }
  int64_t end() const { return start + rows; }
};

struct Batch {
  std::vector<SequenceRows> sequences;
  std::vector<int32_t> ids;           // [rows]
  std::vector<int64_t> position;      // [rows]
  std::vector<int32_t> row_sequence;  // [rows], index into sequences
  std::vector<uint8_t> image;         // [rows]
  Angles plain;                       // of each row, ratio-0 layers
  Angles compressed;                  // of each row, layers with compressed KV

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  // Empty again, with the memory it has.
  void Clear();
  // Appends rows of one more sequence: `tokens` at positions from `start` on. `image` may be empty.
  void Append(const SequenceRows& sequence, std::span<const int32_t> tokens,
              std::span<const uint8_t> image);
  // Rows already run by the encoder and not kept for the decoder are dropped; `kept` becomes the
  // kept rows' old numbers.
  void KeepDecoderRows(const RopeFrequencies& frequencies, std::vector<int64_t>* kept);
  void SetAngles(const RopeFrequencies& frequencies);
};

// Rows whose logits chunks ask for.
int64_t LogitRowsOf(std::span<const Chunk> chunks);

// Appends the rows of a chunk, and the angles of none.
void AppendChunk(const Chunk& chunk, const kvpool::Pool& pool, Batch* batch);
// Flattens chunks; positions follow the pool's lengths. The batch is emptied first.
void FillBatch(std::span<const Chunk> chunks, const kvpool::Pool& pool,
               const RopeFrequencies& frequencies, Batch* batch);

}  // namespace thalweg::model
