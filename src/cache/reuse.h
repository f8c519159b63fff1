// Where a sequence that begins in cached tokens has to start computing (docs/contracts/cache.md;
// spec/serving.md 5.2, decoding.md 2.4). Pure arithmetic.
//
// Rows are positions of a sequence. Compressed rows below the hit are shared and final, so a row at
// or above the hit differs from the one of a cold run only where a *window* row that it looks at
// differs. A window row of layer l at position r is made from the outputs of layer l - 1 at r,
// which look at the W window rows (r - W, r] of layer l - 1, and so on down to the embedding, which
// is always exact. Running from S with nothing below it, layer l's row r is therefore exact from
// r = S + l (W - 1) on, and the output of layer l from S + (l + 1)(W - 1).
//
// Let E be the layers of the encoder, L all layers, D the position from which the decoder runs, and
// X the first row where the encoder's output has to be exact. Then S = X - E (W - 1). There are
// three cases:
//  - hit <= D: the decoder begins above the hit, as in a cold run. Rows from the hit on are new:
//    X = hit.
//  - hit > D, near: the decoder is run again from D on, as in a cold run: X = D.
//  - hit > D, far: the decoder begins at X itself with nothing below, and forgets that by the hit
//    in L - E layers: X = hit - (L - E)(W - 1). Draft stages keep windows of what the last layers
//    bring, wherever these are tapped: they count as one layer more. The encoder alone runs below
//    X.
// The larger X of the last two is taken. S is rounded down to an even row: ratio-2 groups are
// computed whole.
//
// A checkpoint at C restores what rows from C on look at. Encoder windows are the same whatever D
// is, so at C <= D any will do; above D its decoder must have begun at the same D, or have been
// replayed to what it would be then. Rows from C on look at nothing below the floor that it was
// replayed from, so this floor stays in force.
#pragma once

#include <cstdint>

namespace thalweg::cache {

// Whether a sequence that begins in cached tokens must have the bits of one that does not.
enum class PrefixExactness {
  kExact,    // restored from a checkpoint, or replayed far enough back: the bits of a cold run
  kBounded,  // replay of one window (spec/serving.md 5.2): cheap, close, not equal
};

// What the model's layers need to be told apart; integers alone (spec/serving.md 5.2).
struct ReplayReach {
  int64_t window = 128;        // rows that window attention sees, the row itself included
  int64_t encoder_layers = 0;  // window layers before the decoder begins
  int64_t window_layers = 0;   // all target layers
  bool draft = false;          // draft stages keep windows too
};

struct ReuseQuery {
  int64_t hit = 0;           // tokens whose blocks are cached: below the sequence's length
  int64_t decoder_from = 0;  // D of the sequence
  // The largest C <= hit with a checkpoint that serves this sequence; 0: none.
  int64_t checkpoint = 0;
  // Where the decoder of the sequence that left it began: at D, or behind where it was replayed.
  int64_t checkpoint_floor = 0;
};

// The fields of step::SequenceStart that follow from the cache.
struct ReuseStart {
  int64_t start = 0;
  bool restore = false;  // from the checkpoint at `start`
  int64_t encoder_floor = 0;
  int64_t decoder_floor = 0;
  int64_t decoder_from = 0;
  int64_t write_from = 0;  // tokens whose blocks are shared
  // Bounded state at or above this position is worth a checkpoint: it is what a cold run has there
  // (or, with kBounded, as good as it gets).
  int64_t exact_from = 0;
};

// Which checkpoints serve: any at or below D, above it those of sequences with the same D.
inline constexpr int64_t kEncoderOnly = -1;
inline int64_t CheckpointKind(int64_t position, int64_t decoder_from) {
  return position > decoder_from ? decoder_from : kEncoderOnly;
}

// The start with the fewest rows.
ReuseStart ChooseStart(const ReuseQuery& query, const ReplayReach& reach,
                       PrefixExactness exactness);

}  // namespace thalweg::cache
