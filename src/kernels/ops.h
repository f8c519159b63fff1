// The ops of the model: one parameter struct an op, and the table of bodies that a backend fills.
//
// An op is a stage, something a device would run as one launch. Arrays are row-major and dense
// unless a stride is given; shapes stand beside the fields. Every op is a pure function of its
// row's inputs: the bits of a row do not depend on the other rows, on how rows are grouped into
// calls, or on the number of threads (spec/decoding.md 3.1). Activation rows that feed a quantised
// matrix hold *dequantised* values in bf16, which is exact (model.md 5.1).
//
// Tensors (weights, workspace, caches) are in the backend's memory, Ops::memory. What the host
// makes for a step is in the host's: ids, positions, angles, tables of rows, block tables, image
// marks, lists of pointers, and the structs themselves; such fields are marked (host). An op has
// read them when it returns. A device takes them, the structs aside, from StepQueue::list too
// (tensor/memory.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/weights.h"
#include "tensor/memory.h"
#include "tensor/paged_rows.h"
#include "tensor/row_format.h"
#include "tensor/stream.h"

namespace thalweg::kernels {

using tensor::BF16;
using tensor::PagedRows;
using tensor::RowFormat;
using tensor::Stream;

// Copies token embeddings into all residual streams and sets the first pre-mix to (1, 0, ...)
// (model.md 2.1).
struct EmbedParams {
  Stream stream;
  int64_t rows = 0, streams_n = 0, hidden = 0;
  const int32_t* ids = nullptr;     // (host) [rows]; -1 - s stands for newest[s]
  const int32_t* newest = nullptr;  // [slots]; null: there are no such ids
  const BF16* table = nullptr;      // [vocab, hidden]
  BF16* streams = nullptr;          // out [rows, streams_n, hidden]
  float* pre_mix = nullptr;         // out [rows, streams_n]
};

// Finishes a residual update: X_j = bf16(post_j * y + sum_k comb[k][j] X_k), in fp32
// (model.md 2.1).
struct HyperFinishParams {
  Stream stream;
  int64_t rows = 0, streams_n = 0, hidden = 0;
  const BF16* update = nullptr;  // y [rows, hidden]
  const float* post = nullptr;   // [rows, streams_n]
  const float* comb = nullptr;   // [rows, streams_n (from), streams_n (to)]
  BF16* streams = nullptr;       // in/out [rows, streams_n, hidden]
};

// Single-pass mHC: predicts the next coefficients from the streams, collapses the streams with the
// pre-mix made by the previous sublayer, normalises, and quantises for the projections that follow
// (model.md 2.2).
struct HyperPredictParams {
  Stream stream;
  int64_t rows = 0, streams_n = 0, hidden = 0;
  const BF16* streams = nullptr;  // [rows, streams_n, hidden]
  const float* fn = nullptr;      // [2 n + n^2, n * hidden]
  const float* base = nullptr;    // [2 n + n^2]
  const float* scale = nullptr;   // [3]
  int sinkhorn_iters = 0;
  float norm_eps = 0, hc_eps = 0;
  const float* pre_in = nullptr;      // [rows, n], the mix used by this sublayer
  const BF16* norm_weight = nullptr;  // [hidden]
  RowFormat quantise = RowFormat::kFp8E8M0;
  float* pre_out = nullptr;  // out [rows, n], the mix of the next sublayer; must not alias pre_in
  float* post = nullptr;     // out [rows, n]
  float* comb = nullptr;     // out [rows, n, n]
  BF16* normed = nullptr;    // out [rows, hidden]
  BF16* normed_quantised = nullptr;  // out [rows, hidden]
};

// The last collapse: u = bf16(sum_j a_j X_j), then RMSNorm (model.md 2.1, 2.8).
struct CollapseParams {
  Stream stream;
  int64_t rows = 0, streams_n = 0, hidden = 0;
  const BF16* streams = nullptr;      // [rows, n, hidden]
  const float* pre_mix = nullptr;     // [rows, n]
  const BF16* norm_weight = nullptr;  // [hidden]
  float norm_eps = 0;
  BF16* collapsed = nullptr;  // out [rows, hidden] or null
  BF16* normed = nullptr;     // out [rows, hidden]
};

// bf16 mean over the streams, and the same quantised: a draft tap (model.md 2.8).
struct TapParams {
  Stream stream;
  int64_t rows = 0, streams_n = 0, hidden = 0;
  const BF16* streams = nullptr;  // [rows, n, hidden]
  RowFormat quantise = RowFormat::kFp8E8M0;
  BF16* out = nullptr;            // out [rows, out_stride], the first `hidden` of each row
  BF16* out_quantised = nullptr;  // the same shape
  int64_t out_stride = 0;
};

// One output of a Linear call.
struct Projection {
  Matrix weight;             // [out, in]
  BF16* out_bf16 = nullptr;  // exactly one of the two outputs is set: [rows, out]
  float* out_f32 = nullptr;
};

// y = W x for several matrices over the same input rows; fp32 accumulation, outputs rounded once
// (model.md 5.1).
struct LinearParams {
  Stream stream;
  int64_t rows = 0, in = 0;
  const BF16* x =
      nullptr;  // [rows, in]; already quantised and dequantised where the matrix asks for it
  std::span<const Projection> projections;
};

// z_g = W_g x_g for `groups` independent blocks, then quantised for the next projection (wo_a;
// model.md 2.5).
struct GroupedLinearParams {
  Stream stream;
  int64_t rows = 0, groups = 0, group_in = 0, group_out = 0;
  const BF16* x = nullptr;  // [rows, groups, group_in], not quantised
  Matrix weight;            // [groups * group_out, group_in]
  RowFormat quantise = RowFormat::kFp8E8M0;
  BF16* out = nullptr;  // out [rows, groups * group_out]
};

// RMSNorm, and the same quantised (model.md 2, 5.2).
struct NormParams {
  Stream stream;
  int64_t rows = 0, width = 0;
  const BF16* x = nullptr;       // [rows, width]
  const BF16* weight = nullptr;  // [width]
  float eps = 0;
  RowFormat quantise = RowFormat::kFp8E8M0;
  BF16* out = nullptr;            // out [rows, width] or null
  BF16* out_quantised = nullptr;  // out [rows, width] or null
};

// Rotation angles of each row: cos and sin of position * frequency in fp32 (model.md 2.4).
struct Rotation {
  const float* cos = nullptr;  // (host) [rows, rope_dim / 2]
  const float* sin = nullptr;  // (host) [rows, rope_dim / 2]
  int64_t rope_dim = 0;        // the last rope_dim values of a vector are rotated in adjacent pairs
};

// Window KV of each row: norm, rotate, encode (model.md 2.5).
struct WindowRowsParams {
  Stream stream;
  int64_t rows = 0, width = 0;
  const BF16* kv = nullptr;           // [rows, width], output of wkv
  const BF16* norm_weight = nullptr;  // [width]
  float norm_eps = 0;
  Rotation rotation;  // of each row
  RowFormat format = RowFormat::kFp8E8M0;
  uint8_t* out = nullptr;  // out [rows, RowBytes(format, width)]
};

// Latents of the compressor. Ratio 1: norm of each row. Ratio 2: per channel softmax over the two
// tokens of a group, weighted sum, norm (model.md 2.5). Entry i reads rows first[i] and, for ratio
// 2, second[i] of kv and score.
struct PoolParams {
  Stream stream;
  int64_t groups = 0, width = 0, ratio = 1;
  const BF16* kv_bf16 = nullptr;           // ratio 1: [rows, width]
  std::span<const float* const> first_kv;  // (host) ratio 2: per group, [width] each
  std::span<const float* const> first_score;
  std::span<const float* const> second_kv;
  std::span<const float* const> second_score;
  const BF16* norm_weight = nullptr;  // [width]
  float norm_eps = 0;
  BF16* latent = nullptr;  // out [groups, width]
};

// Rotates (and first normalises, when norm_weight is set) rows and stores them encoded at
// destination[i]: main compressed rows and index keys (model.md 2.5).
struct StoreRowsParams {
  Stream stream;
  int64_t rows = 0, width = 0;
  const BF16* x = nullptr;            // [rows, width]
  const BF16* norm_weight = nullptr;  // [width] or null
  float norm_eps = 0;
  Rotation rotation;  // of each row, at the position of the group's first token
  RowFormat format = RowFormat::kFp4E4M3;
  uint8_t* const* destination = nullptr;  // (host) [rows]
};

// Chosen candidate blocks of a row, sorted ascending; count < 0 means no restriction
// (model.md 2.5).
struct CandidateSets {
  int32_t* blocks = nullptr;  // [rows, capacity]
  int64_t* count = nullptr;   // [rows]
  int64_t capacity = 0;       // blocks kept
  int64_t block_size = 0;     // positions a block
};

// Index scores over everything visible, top-k, and candidate blocks (model.md 2.5). Ties go to the
// lowest index.
struct IndexSelectParams {
  Stream stream;
  int64_t rows = 0, heads = 0, width = 0, topk = 0;
  BF16* query =
      nullptr;  // in/out [rows, heads, width]: output of indexer.wq_b; left rotated and quantised
  BF16* head_weight =
      nullptr;  // in/out [rows, heads]: weights_proj x; left scaled by weight_scale, rounded again
  float weight_scale = 0;  // width^-0.5 * heads^-0.5
  Rotation rotation;       // of each row
  RowFormat query_format = RowFormat::kFp4E8M0;
  const PagedRows* keys = nullptr;        // (host) [sequences]
  const int32_t* row_sequence = nullptr;  // (host) [rows]
  const int64_t* visible = nullptr;       // (host) [rows]: entries 0..visible-1 may be chosen
  int64_t most_visible = 0;               // not below any of them; 0: as the list says
  const CandidateSets* restrict_to =
      nullptr;  // read: choose inside these blocks only; null = no restriction
  CandidateSets* make_candidates =
      nullptr;                   // written when set; candidates are made from the whole context
  int32_t* selection = nullptr;  // out [rows, topk]: ascending entries, -1 behind the last
};

// The window keys of one sequence in one layer: rows of earlier steps in a ring, rows of this step
// in a chunk.
struct WindowKeys {
  const uint8_t* ring = nullptr;  // [ring_rows, row_bytes], position p at p % ring_rows
  int64_t ring_rows = 0;
  const uint8_t* chunk = nullptr;  // row of position chunk_begin first
  int64_t chunk_begin = 0;         // positions at or above live in the chunk
  int64_t floor = 0;               // positions below do not exist (replay start)
};

// Rotates q, attends to window and selected rows with a sink, rotates back (model.md 2.5). Slots in
// canonical order: always `window` slots from max(0, end - window + 1) upwards, empty ones masked,
// then the selection; blocks of 64 slots run over this sequence.
struct AttentionParams {
  Stream stream;
  int64_t rows = 0, heads = 0, width = 0, window = 0;
  BF16* query = nullptr;                    // in [rows, heads, width]; may be used as scratch
  Rotation rotation;                        // of each row
  float scale = 0;                          // width^-0.5
  const float* sink = nullptr;              // [heads]
  const int32_t* row_sequence = nullptr;    // (host) [rows]
  const int64_t* window_end = nullptr;      // (host) [rows]: newest window position, inclusive
  const WindowKeys* window_keys = nullptr;  // (host) [sequences]
  RowFormat window_format = RowFormat::kFp8E8M0;
  const PagedRows* selected_rows =
      nullptr;                         // (host) [sequences] or null: no selected rows in this layer
  const int32_t* selection = nullptr;  // [rows, topk]
  int64_t topk = 0;
  BF16* out = nullptr;  // out [rows, heads, width]
};

// Router: sqrt(softplus(Wx)), biased top-k, normalised weights (model.md 2.6). Ties go to the
// lowest expert.
struct GateParams {
  Stream stream;
  int64_t rows = 0, hidden = 0, experts = 0, topk = 0;
  const BF16* x = nullptr;                // [rows, hidden], not quantised
  Matrix weight;                          // [experts, hidden]
  const float* bias = nullptr;            // [experts]
  const float* image_bias = nullptr;      // [experts], for rows inside an image span
  const uint8_t* row_is_image = nullptr;  // (host) [rows] or null
  float route_scale = 0;
  int32_t* chosen = nullptr;  // out [rows, topk], ascending expert ids
  float* weights = nullptr;   // out [rows, topk], in the order of `chosen`
};

// Routed experts with the weight inside the down projection's input, plus the shared expert
// (model.md 2.6). y = bf16(sum over chosen in ascending order, fp32 + shared).
struct ExpertsParams {
  Stream stream;
  int64_t rows = 0, hidden = 0, inner = 0, topk = 0;
  const BF16* x = nullptr;          // [rows, hidden], quantised
  const int32_t* chosen = nullptr;  // [rows, topk]
  const float* weights = nullptr;   // [rows, topk]
  std::span<const FeedForward> experts;
  FeedForward shared;
  float swiglu_limit = 0;
  RowFormat quantise = RowFormat::kFp8E8M0;  // of the down projection's input
  BF16* out = nullptr;                       // out [rows, hidden]
};

// Reads Engram table rows and quantises them as the wkv projection's input (model.md 2.3).
struct EngramGatherParams {
  Stream stream;
  int64_t rows = 0, columns = 0, width = 0;  // width = engram_head_dim
  const int64_t* table_rows = nullptr;       // (host) [rows, columns]
  bool made = false;                         // table_rows are engram_hash's: of the backend
  const uint8_t* codes = nullptr;            // e4m3 [table rows, width]
  const uint8_t* scales = nullptr;           // e8m0 [table rows, width / 32]
  RowFormat quantise = RowFormat::kFp8E8M0;
  BF16* out = nullptr;  // out [rows, columns * width]
};

// Table rows of every token's n-grams (model.md 2.3): an own hash for each order, an own modulus
// for each column. A compressed id of -1 is dead: it, and all that it hides, counts as padding.
struct EngramHashParams {
  Stream stream;
  int64_t rows = 0, orders = 0, heads = 0, tables = 0;  // columns: (orders - 1) * heads
  // (host) [rows, orders]: compressed ids, the newest first; -2 - s: of newest[s].
  const int32_t* look_back = nullptr;
  const int32_t* newest = nullptr;        // [slots]
  const int32_t* token_map = nullptr;     // [vocab]
  const uint64_t* multipliers = nullptr;  // [tables, orders]
  const uint64_t* primes = nullptr;       // [tables, columns]
  const int64_t* offsets = nullptr;       // [tables, columns]
  int32_t pad = 0;
  int64_t table_stride = 0;  // from table to table of `out`, in values
  int64_t* out = nullptr;    // out [tables][rows, columns]
};

// Gates the Engram value into every stream (model.md 2.3). Rows with dead[row] != 0 are left alone.
struct EngramGateParams {
  Stream stream;
  int64_t rows = 0, streams_n = 0, hidden = 0;
  const BF16* kv =
      nullptr;  // [rows, (streams_n + 1) * hidden]: keys of each stream, then the value
  const float* q_weight = nullptr;  // [streams_n, hidden]
  const float* k_weight = nullptr;  // [streams_n, hidden]
  float norm_eps = 0;
  const uint8_t* dead = nullptr;  // (host) [rows] or null
  BF16* streams = nullptr;        // in/out [rows, streams_n, hidden]
};

// One step of the Markov head for every block: logits += W_m E_m[prev], and the confidence logit
// (model.md 2.8).
struct MarkovParams {
  Stream stream;
  int64_t rows = 0, hidden = 0, rank = 0, vocab = 0;
  const int32_t* previous = nullptr;  // (host) [rows] token ids; -1 - s stands for newest[s]
  const int32_t* newest = nullptr;    // null: there are no such ids
  const BF16* embed = nullptr;        // [vocab, rank]
  Matrix head;                        // [vocab, rank]
  Matrix confidence;                  // [1, hidden + rank]
  const BF16* state = nullptr;        // v [rows, state_stride], the first `hidden` of each row
  int64_t state_stride = 0;
  float* logits = nullptr;  // in/out [rows, logits_stride], the first `vocab` of each row
  int64_t logits_stride = 0;
  float* confidence_out = nullptr;  // out [rows]
};

// How the token of a row is chosen (decoding.md 4).
struct ChooseRow {
  static constexpr int32_t kNotChosen = -1, kKeptNowhere = -2;
  uint64_t seed = 0;
  int64_t position = 0;       // of the token
  double temperature = 0;     // 0: the most probable one
  int32_t slot = kNotChosen;  // where it is kept, or one of the above
  int32_t mask = -1;          // of ChooseParams::masks; -1: any token may come
};

// The token of each row: the largest logit, or of logit / temperature + Gumbel noise; ties go to
// the lowest id. The bits of the host's sampler.
struct ChooseParams {
  Stream stream;
  int64_t rows = 0, vocab = 0;
  const float* logits = nullptr;  // [rows, stride], the first `vocab` of each row
  int64_t stride = 0;
  const ChooseRow* choices = nullptr;  // (host) [rows]
  // (host) [masks_count, ceil(vocab / 32)]: bit t % 32 of word t / 32 lets token t come.
  const uint32_t* masks = nullptr;
  int64_t masks_count = 0;
  int32_t* newest = nullptr;  // out [slots]
  int32_t* tokens = nullptr;  // out [rows], or one of the below; null: nobody asks
};
inline constexpr int32_t kNotFinite = -1;    // a logit is no number, or the largest is infinite
inline constexpr int32_t kNothingLeft = -2;  // the mask leaves none
inline constexpr int32_t kNoToken = -3;      // of a row for which none was to be chosen

// A block of rows of which the ones behind the first ran on drafts (decoding.md 1.6).
struct DraftedRows {
  int32_t first_row = 0, rows = 1;  // of ChooseParams::tokens
  int32_t drafts = 0;               // newest[drafts + i] was the token of row 1 + i
  int32_t slot = 0;                 // whose newest token comes out of it
};

// Accepts drafts as long as they are what was chosen behind the row before. The token behind the
// last accepted one is kept for the slot; 0, a token, where there is none.
struct AcceptParams {
  Stream stream;
  int64_t blocks_count = 0;
  const DraftedRows* blocks = nullptr;  // (host) [blocks_count]
  const int32_t* tokens = nullptr;      // [rows]
  int32_t* newest = nullptr;            // in/out
  int32_t* accepted = nullptr;          // out [blocks_count]: drafts
};

// Lists of draft blocks, made as if no draft of the step before had been accepted, become those of
// the positions behind what was.
struct AdvanceParams {
  Stream stream;
  int64_t sequences = 0, block = 0, stages = 0;
  const int32_t* accepted = nullptr;  // of the step before
  const int32_t* of = nullptr;        // (host) [sequences]: which of them; -1: none
  WindowKeys* window_keys = nullptr;  // (list) in/out [stages, sequences]
  int64_t* window_end = nullptr;      // (list) in/out [sequences, block]
  ChooseRow* choices = nullptr;       // (list) in/out [block, sequences]
  Rotation rotation;                  // (list) out [sequences, block]
  Rotation ahead;                     // (host) [sequences, ahead_rows]: of the first position on
  int64_t ahead_rows = 0;
};

// Copies rows of `bytes` bytes each, in no order: no destination overlaps another or a source.
struct CopyRowsParams {
  Stream stream;
  int64_t count = 0, bytes = 0;
  const void* const* from = nullptr;  // (host) [count]
  void* const* to = nullptr;          // (host) [count]
};

// Moves kept rows to the front of an array, in order.
struct CompactRowsParams {
  Stream stream;
  int64_t count = 0, bytes = 0;   // rows kept, bytes of a row
  const int64_t* kept = nullptr;  // (host) [count], ascending
  void* data = nullptr;           // in/out
  void* scratch = nullptr;        // [count, bytes]; may be used
};

// How products are computed (docs/numerics.md).
enum class Numerics {
  kExact,  // operands as the reference has them, fp32 accumulation
  kFast,   // cpu: activations and fp8 weights rounded to int8; cuda: sums of FP8 instructions
};

// In which order products of bf16 operands are added within 32 columns (docs/numerics.md). Tables
// of one order and numerics give the same bits.
enum class SumOrder {
  kPairByPair,   // pairs in order: the odd product of each, then the even one
  kEvenAndOdd,   // the even products of all pairs, likewise the odd ones, then their sum
  kMatrixUnits,  // as the matrix units of a device add, which no host repeats
};

struct StepSeconds {
  double busy = 0, idle = 0;
};

// What a device can tell of itself; benches divide by it.
struct DeviceGauges {
  int64_t (*launches)(const Stream&) = nullptr;  // kernels put on the stream's queue so far
  // Of the steps that were waited for one by one (tensor::StepQueue): seconds in which one ran, and
  // between the end of one and the beginning of the next.
  StepSeconds (*step_seconds)(const Stream&) = nullptr;
  double (*copy_gb_s)(const Stream&) = nullptr;     // read and written by a copy within its memory
  double (*bf16_gflop_s)(const Stream&) = nullptr;  // of its matrix units, operands at hand
};

// The bodies of one backend. Every entry is set but where it says so.
struct Ops {
  std::string_view name;
  Numerics numerics = Numerics::kExact;
  SumOrder sums = SumOrder::kPairByPair;
  // Whether the backend rounds where the published reference rounds (held to tighter limits by
  // `thalweg verify`).
  bool same_rounding = false;
  const tensor::Memory* memory = &tensor::HostMemory();
  void (*embed)(const EmbedParams&) = nullptr;
  void (*hyper_finish)(const HyperFinishParams&) = nullptr;
  void (*hyper_predict)(const HyperPredictParams&) = nullptr;
  void (*collapse)(const CollapseParams&) = nullptr;
  void (*tap)(const TapParams&) = nullptr;
  void (*linear)(const LinearParams&) = nullptr;
  void (*grouped_linear)(const GroupedLinearParams&) = nullptr;
  void (*norm)(const NormParams&) = nullptr;
  void (*window_rows)(const WindowRowsParams&) = nullptr;
  void (*pool)(const PoolParams&) = nullptr;
  void (*store_rows)(const StoreRowsParams&) = nullptr;
  void (*index_select)(const IndexSelectParams&) = nullptr;
  void (*attention)(const AttentionParams&) = nullptr;
  void (*gate)(const GateParams&) = nullptr;
  void (*experts)(const ExpertsParams&) = nullptr;
  void (*engram_gather)(const EngramGatherParams&) = nullptr;
  void (*engram_gate)(const EngramGateParams&) = nullptr;
  void (*markov)(const MarkovParams&) = nullptr;
  void (*copy_rows)(const CopyRowsParams&) = nullptr;
  void (*compact_rows)(const CompactRowsParams&) = nullptr;
  // Of a device that runs beside the host; null where the host does it.
  void (*engram_hash)(const EngramHashParams&) = nullptr;
  void (*choose)(const ChooseParams&) = nullptr;
  void (*accept)(const AcceptParams&) = nullptr;
  void (*advance)(const AdvanceParams&) = nullptr;

  // The layout this backend multiplies fastest, made once at load: bytes it takes for a matrix (by
  // its format and shape alone, `data` may be null; 0: the stored form is used as it is), and the
  // making, into 64-byte aligned memory of that size. Results have the same bits with and without
  // it.
  int64_t (*packed_bytes)(const Matrix&) = nullptr;
  void (*pack)(const Stream&, const Matrix&, void* out) = nullptr;

  const DeviceGauges* gauges = nullptr;  // of a device; null on the host
};

// Plain readable bodies: the oracle every other backend is compared with.
const Ops& ReferenceOps();

}  // namespace thalweg::kernels
