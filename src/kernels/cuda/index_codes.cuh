// Index scores on Hopper in FP8: e2m1 values are e4m3 values, so that keys go from packed codes to
// operands by shifting bits, and a group of 32 channels is one product of the matrix unit, whose
// sum (13 bits at most) is exact. Groups are added in fp32, in order, each times its key's scale.
//
// A query's groups carry their scales in their codes, by how much they are below the largest of
// their head (exact down to 2^-14 of it); that one is in the head's weight, for powers of two
// change no rounding. Keys count times 2^-6, which is what their bits say, and queries times 2^6.
#pragma once

#include <climits>

#include "kernels/cuda/index_fast.cuh"
#include "kernels/cuda/ring.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kCodeGroups = kFastWidth / 32;

// Where channel c of a head lies: even codes of a word of eight side by side, odd ones behind those
// of the group; 128-byte rows, swizzled.
__device__ inline int QueryCodeOffset(int head, int c) {
  const int piece = c / 32 * 2 + c % 2, place = c % 32 / 8 * 4 + c % 8 / 2;
  return head * kFastWidth + (piece ^ head % 8) * kTilePiece + place;
}

// The lane's channel c of a head, rotated; its neighbour in the pair is in the next lane.
__device__ inline float RotatedLane(float x, int c, const DeviceRotation& rotation, int64_t row) {
  const float other = __shfl_xor_sync(kAllLanes, x, 1);
  const int plain = kFastWidth - 2 * static_cast<int>(rotation.half);
  if (c < plain) return x;
  const int64_t angle = row * rotation.half + (c - plain) / 2;
  const float cosine = rotation.cos[angle], sine = rotation.sin[angle];
  return RoundToBF16(c % 2 == 0 ? x * cosine - other * sine : other * sine + x * cosine);
}

// Rotates, quantises and writes back the query of each head, and scales its weight, as
// PrepareKernel does (index_job.cuh), a warp a head; and makes codes of them. Loops are not
// unrolled: instructions that run once cost their way from memory.
static __global__ void PrepareCodesKernel(IndexSelectParams p, DeviceRotation rotation,
                                          uint64_t* done, QueryCodes out) {
  constexpr int kWarps = 8;
  constexpr float kQueryScale = 0x1p6f;
  // In this order: what is behind may read what was there before, keys above all.
  AwaitKernelBefore();
  LetNextKernelStart();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  const int64_t row = i / kFastHeads;
  const int head = static_cast<int>(i % kFastHeads);
  if (row >= p.rows) return;
  BF16* q = p.query + i * kFastWidth + lane;
  uint32_t packed = 0, scales = 0, most = 0;  // of the lane's channels, by groups
#pragma unroll 1
  for (int g = 0; g < kCodeGroups; ++g) {
    const float x = RotatedLane(Wide(q[g * 32]), g * 32 + lane, rotation, row);
    const Coded coded = QuantiseLane(RowFormat::kFp4E8M0, x);
    q[g * 32] = Narrow(coded.value);
    packed |= coded.code << 4 * g;
    scales |= static_cast<uint32_t>(coded.scale) << 8 * g;
    most = max(most, static_cast<uint32_t>(coded.scale));
  }
  uint8_t* codes = out.codes + row * kQueryCodeBytes;
#pragma unroll 1
  for (int g = 0; g < kCodeGroups; ++g) {
    const uint32_t below = min(most - (scales >> 8 * g & 0xffu), 120u);
    const float factor = __uint_as_float((127u - below) << 23) * kQueryScale;
    codes[QueryCodeOffset(head, g * 32 + lane)] = ToE4M3(FromE2M1(packed >> 4 * g) * factor);
  }
  if (lane != 0) return;
  const BF16 weight = Narrow(Wide(p.head_weight[i]) * p.weight_scale);
  p.head_weight[i] = weight;
  reinterpret_cast<BF16*>(out.weights + row * kWeightWords)[head] =
      Narrow(Wide(weight) * FromE8M0(static_cast<uint8_t>(most)));
  if (done != nullptr && head == 0) done[row] = 0;
}

inline void PrepareQueryCodes(const IndexSelectParams& p, uint64_t* done, const QueryCodes& out,
                              Queue* queue) {
  constexpr int kWarps = 8;
  const DeviceRotation rotation = StageRotation(queue, p.rotation, p.rows);
  LaunchEarly(queue, PrepareCodesKernel, Count(p.rows * kFastHeads / kWarps), kWarps * kWarp, 0, p,
              rotation, done, out);
}

// Keys of a warp on their way, 64 at a time, a unit: entries first, first + stride, ... of `count`.
// Where they are neighbours in memory, a unit is one bulk copy; inside candidates it is eight, each
// of a run of eight.
inline constexpr int kUnitRuns = 8, kUnitKeys = kUnitRuns * kRunKeys;
inline constexpr int kPairRuns = 4, kUnitPairs = kUnitRuns / kPairRuns;  // two tiles of sixteen
inline constexpr int kSixteenBytes = 2 * kRunBytes;
inline constexpr int kCodeStages = 2;  // copies under way
inline constexpr int kCodeBlocks = 4;  // of a multiprocessor

struct CodeStream {
  struct Shared {
    alignas(16) uint8_t keys[kCodeStages][kUnitRuns * kRunBytes];
    int32_t position[kCodeStages][kUnitRuns];  // of the runs' first entries, inside candidates
    alignas(8) uint64_t full[kCodeStages];
  };

  Shared& shared;
  const PagedRows& rows;
  const Entries& entries;
  int first, stride, count;  // entries: of the warp's first keys, between units; all
  int units;
  bool whole;  // units are neighbours in memory
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint8_t* place = nullptr;  // of the run, or the unit, that the lane will ask for
  int position = 0;
  int asked = 0, ask_stage = 0;  // units so far, and the place of the next
  int stage = 0;
  uint32_t parity = 0;

  __device__ void Open() {
    if (lane < kCodeStages) OpenBarrier(&shared.full[lane], 1);
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < kCodeStages; ++i) Ask();
  }

  // Whole units: a lane each. Runs: eight lanes a unit.
  __device__ void Look() {
    const int unit = asked + (whole ? lane : lane / kUnitRuns);
    const int entry = first + unit * stride + (whole ? 0 : lane % kUnitRuns * kRunKeys);
    const bool there = unit < units && entry < count;
    position = there ? RunPosition(entries, entry) : -1;
    place = there ? RowAt(rows, position) : nullptr;
  }

  // Asks for the next unit, if there is one.
  __device__ void Ask() {
    const int each = whole ? kWarp : kWarp / kUnitRuns;
    if (asked % each == 0) Look();
    if (asked < units) {
      const int leader = whole ? asked % kWarp : asked % each * kUnitRuns;
      const int left = count - first - asked * stride;
      const int runs = min((max(left, 0) + kRunKeys - 1) / kRunKeys, kUnitRuns);
      uint64_t* full = &shared.full[ask_stage];
      const int mine = lane - leader;
      if (mine == 0) {
        ExpectBytes(full, runs * kRunBytes);
        if (whole && runs > 0) {
          CopyBulk(shared.keys[ask_stage], place, runs * kRunBytes, full);
        }
      }
      if (!whole && mine >= 0 && mine < kUnitRuns) {
        shared.position[ask_stage][mine] = position;
        if (mine < runs) {
          CopyBulk(shared.keys[ask_stage] + mine * kRunBytes, place, kRunBytes, full);
        }
      }
    }
    ++asked;
    ask_stage = ask_stage + 1 == kCodeStages ? 0 : ask_stage + 1;
  }

  __device__ void Wait() const { Await(&shared.full[stage], parity); }
  // The unit has been read by all lanes.
  __device__ void Advance() {
    __syncwarp();
    Ask();
    stage = stage + 1 == kCodeStages ? 0 : stage + 1;
    parity ^= stage == 0 ? 1u : 0u;
  }
};

// Sixteen keys of a warp: of keys lane / 4 and lane / 4 + 8 the words that the lane's quarter of
// each group has, and their scales.
struct CodeWords {
  uint32_t words[kCodeGroups][2], scales[2];

  __device__ void Load(const uint8_t* keys, int lane) {
    constexpr int kBelow = kRunBytes / 4, kScales = kFastWidth / 8;
    const auto* from = reinterpret_cast<const uint32_t*>(keys) + lane / 4 * (kFastRowBytes / 4);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int g = 0; g < kCodeGroups; ++g) words[g][h] = from[h * kBelow + 4 * g + lane % 4];
      scales[h] = from[h * kBelow + kScales];
    }
  }
};

// The same as A of the products.
struct CodeOperands {
  uint32_t a[kCodeGroups][4];
  uint32_t scales[2];

  // Four e2m1 codes of a word as e4m3, times 2^-6: their bits are its exponent and mantissa.
  __device__ static uint32_t Even(uint32_t w) {
    return (w << 2 & 0x1c1c1c1cu) | (w << 4 & 0x80808080u);
  }
  __device__ static uint32_t Odd(uint32_t w) { return (w >> 2 & 0x1c1c1c1cu) | (w & 0x80808080u); }
  // The scale of key h in group g; 0 for the smallest code, which no quantiser makes.
  __device__ float Scale(int g, int h) const {
    return __uint_as_float((scales[h] >> 8 * g & 0xffu) << 23);
  }

  __device__ void Make(const CodeWords& from) {
#pragma unroll
    for (int g = 0; g < kCodeGroups; ++g) {
      a[g][0] = Even(from.words[g][0]);
      a[g][1] = Even(from.words[g][1]);
      a[g][2] = Odd(from.words[g][0]);
      a[g][3] = Odd(from.words[g][1]);
    }
    scales[0] = from.scales[0];
    scales[1] = from.scales[1];
  }
};

#ifdef THALWEG_WGMMA

// d = A B for 32 channels, by a warpgroup.
__device__ inline void CodeStep(float (&d)[16], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {" THALWEG_NAMES_16
               "}, {%16, %17, %18, %19}, %20, 0, 1, 1;\n"
               : THALWEG_SUMS_16
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// Keeps what is read of sums behind the wait for them.
__device__ inline void HoldSums(float (&d)[16]) { asm volatile("" : THALWEG_SUMS_16 : : "memory"); }

// Adds a group's sums, each times its key's scale.
__device__ inline void AddGroup(int g, const float (&part)[16], const CodeOperands& keys,
                                float (&sums)[4][4]) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float factor = keys.Scale(g, i / 2), x = part[4 * n + i];
      sums[n][i] = g == 0 ? x * factor : fmaf(x, factor, sums[n][i]);
    }
  }
}

// Sums of two groups are under way at a time.
struct CodeParts {
  float part[2][16];

  __device__ void Begin(const CodeOperands& keys, int g, uint64_t queries) {
    constexpr uint64_t kStep = 32 >> 4;
    BeginProducts();
    CodeStep(part[g % 2], keys.a[g], queries + static_cast<uint64_t>(g) * kStep);
    CommitProducts();
  }
  // Takes those of group g, of which kBehind more are under way.
  template <int kBehind>
  __device__ void Take(const CodeOperands& keys, int g, float (&sums)[4][4]) {
    WaitProducts<kBehind>();
    HoldSums(part[g % 2]);
    AddGroup(g, part[g % 2], keys, sums);
  }
};

// Dot products of the warp's keys with a row's heads; `queries` describes B.
__device__ inline void MultiplyCodes(const CodeOperands& keys, uint64_t queries,
                                     float (&sums)[4][4]) {
  CodeParts parts;
  parts.Begin(keys, 0, queries);
  parts.Begin(keys, 1, queries);
  parts.Take<1>(keys, 0, sums);
  parts.Begin(keys, 2, queries);
  parts.Take<1>(keys, 1, sums);
  parts.Begin(keys, 3, queries);
  parts.Take<1>(keys, 2, sums);
  parts.Take<0>(keys, 3, sums);
}

#endif

// Scores of the warp's keys from dot products: each head's rounded, made positive, weighted and
// rounded; heads are added by the matrix unit.
__device__ inline void AddCodeHeads(const float (&sums)[4][4], const uint32_t (&weight)[4],
                                    float (&score)[2]) {
  constexpr uint32_t kOnes = 0x3f803f80u;
  uint32_t terms[4][2];
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t active;
      asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;\n"
          : "=r"(active)
          : "f"(sums[n][2 * h + 1]), "f"(sums[n][2 * h]));
      terms[n][h] = MultiplyPairs(active, weight[n]);
    }
  }
  float total[4] = {};
#pragma unroll
  for (int n = 0; n < 4; n += 2) {
    const uint32_t a[4] = {terms[n][0], terms[n][1], terms[n + 1][0], terms[n + 1][1]};
    MultiplyStep(total, a, kOnes, kOnes);
  }
  score[0] = total[0];
  score[1] = total[2];
}

template <int kMost>
struct CodeShared {
  alignas(1024) uint8_t queries[kMost][kQueryCodeBytes];
  alignas(16) CodeStream::Shared streams[4];
  uint32_t weights[kMost][kWeightWords];
  int visible[kMost];
};

// What a warpgroup has to do: units of four warps side by side.
inline constexpr int kTeamKeys = 4 * kUnitKeys;

__device__ inline int CountOf(const ScoreJob& job, RowTile tile, Entries* entries) {
  *entries = EntriesOf(job, tile.first);
  if (entries->blocks == nullptr) {
#pragma unroll 1
    for (int r = 1; r < tile.count; ++r) {
      entries->count = max(entries->count, job.p.visible[tile.first + r]);
    }
  }
  return static_cast<int>(entries->count);
}

template <int kMost>
__device__ void LoadQueryCodes(const QueryCodes& from, RowTile tile, const ScoreJob& job,
                               CodeShared<kMost>* shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto* codes = reinterpret_cast<const uint4*>(from.codes + tile.first * kQueryCodeBytes);
#pragma unroll 2
  for (int i = thread; i < tile.count * kQueryCodeBytes / 16; i += 4 * kWarp) {
    reinterpret_cast<uint4*>(shared->queries[0])[i] = codes[i];
  }
  if (thread < tile.count * kWeightWords) {
    shared->weights[0][thread] = from.weights[tile.first * kWeightWords + thread];
  }
  if (thread < tile.count) {
    shared->visible[thread] = static_cast<int>(job.p.visible[tile.first + thread]);
  }
  PublishShared();
  __syncthreads();
}

// OrderedCode of a sum of bf16 terms, rounded, where `counts`; else 0. Such a sum is a multiple of
// the least bf16, so that it rounds to no zero, and none of -0 is left.
__device__ inline uint32_t CodeOfSum(float sum, bool counts) {
  constexpr float kRoundsToInfinity = -0x1.ffp127f;
  sum += 0.0f;
  const uint32_t twice = PackPair(sum, sum);
  const auto sign = static_cast<uint32_t>(static_cast<int32_t>(twice) >> 31);
  const uint32_t code = (twice ^ (sign | 0x8000u)) & 0xffffu;
  return counts && sum > kRoundsToInfinity ? code : 0u;
}

// What a warp has to do, and where its lanes' codes go: a lane has run lane % 4 of four.
struct CodeWork {
  const ScoreJob& job;
  CodeStream& stream;
  RowTile tile;
  uint64_t queries;  // B of the first row
  bool whole;
  uint16_t *codes, *best;  // of the first row
  int lane = static_cast<int>(threadIdx.x) % kWarp, run = lane % kPairRuns;
  int padded = (stream.count + kFastKeys - 1) / kFastKeys * kFastKeys;
  int entry = stream.first + run * kRunKeys + lane / 4;

  // The position of the lane's key; behind all where there is none.
  __device__ int Position(int at, int pair) const {
    if (at >= stream.count) return INT_MAX;
    return whole ? at : stream.shared.position[stream.stage][pair * kPairRuns + run] + lane / 4;
  }
  // Codes of row `row` of the tile. All lanes come; those with `mine` store.
  __device__ void Store(int at, int row, bool mine, uint32_t code) const {
    mine = mine && at < padded;
    if (mine) codes[row * job.stride + at] = static_cast<uint16_t>(code);
    if (best != nullptr) StoreBest(code, mine, best + (row * job.stride + at) / kRunKeys);
  }
  __device__ const uint8_t* Keys() const { return stream.shared.keys[stream.stage]; }
};

#ifdef THALWEG_WGMMA

// Scores of two sixteens of keys. Products of the second are under way while the first's sums are
// taken.
__device__ inline void ScorePair(const CodeWork& work, const uint8_t* from,
                                 const uint32_t (&weight)[4], float (&score)[2][2]) {
  CodeOperands keys[2];
  CodeWords words;
  CodeParts parts;
  float sums[4][4];
  words.Load(from, work.lane);
  keys[0].Make(words);
  parts.Begin(keys[0], 0, work.queries);
  parts.Begin(keys[0], 1, work.queries);
  words.Load(from + kSixteenBytes, work.lane);
  keys[1].Make(words);
  parts.Take<1>(keys[0], 0, sums);
  parts.Begin(keys[0], 2, work.queries);
  parts.Take<1>(keys[0], 1, sums);
  parts.Begin(keys[0], 3, work.queries);
  parts.Take<1>(keys[0], 2, sums);
  parts.Begin(keys[1], 0, work.queries);
  parts.Take<1>(keys[0], 3, sums);
  parts.Begin(keys[1], 1, work.queries);
  AddCodeHeads(sums, weight, score[0]);
  parts.Take<1>(keys[1], 0, sums);
  parts.Begin(keys[1], 2, work.queries);
  parts.Take<1>(keys[1], 1, sums);
  parts.Begin(keys[1], 3, work.queries);
  parts.Take<1>(keys[1], 2, sums);
  parts.Take<0>(keys[1], 3, sums);
  AddCodeHeads(sums, weight, score[1]);
}

// One row.
__device__ inline void ScoreOneRow(CodeWork work, const uint32_t (&weight)[4], int visible) {
  CodeStream& stream = work.stream;
#pragma unroll 1
  for (int unit = 0; unit < stream.units; ++unit, work.entry += stream.stride) {
    stream.Wait();
#pragma unroll 1
    for (int pair = 0; pair < kUnitPairs; ++pair) {
      const int at = work.entry + pair * kPairRuns * kRunKeys;
      const int position = work.Position(at, pair);
      float score[2][2];
      ScorePair(work, work.Keys() + pair * 2 * kSixteenBytes, weight, score);
      const float low = work.run % 2 == 0 ? score[0][0] : score[0][1];
      const float high = work.run % 2 == 0 ? score[1][0] : score[1][1];
      work.Store(at, 0, true, CodeOfSum(work.run < 2 ? low : high, position < visible));
    }
    stream.Advance();
  }
}

// Rows that share keys.
template <int kMost>
__device__ void ScoreRows(CodeWork work, const CodeShared<kMost>& shared) {
  CodeStream& stream = work.stream;
#pragma unroll 1
  for (int unit = 0; unit < stream.units; ++unit, work.entry += stream.stride) {
    stream.Wait();
#pragma unroll 1
    for (int sixteen = 0; sixteen < 2 * kUnitPairs; ++sixteen) {
      const int pair = sixteen / 2, at = work.entry + pair * kPairRuns * kRunKeys;
      const int position = work.Position(at, pair);
      const bool mine = work.run / 2 == sixteen % 2;
      CodeWords words;
      words.Load(work.Keys() + sixteen * kSixteenBytes, work.lane);
      CodeOperands keys;
      keys.Make(words);
#pragma unroll 1
      for (int r = 0; r < work.tile.count; ++r) {
        float sums[4][4], score[2];
        MultiplyCodes(keys, work.queries + static_cast<uint64_t>(r * (kQueryCodeBytes >> 4)), sums);
        uint32_t weight[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) weight[n] = shared.weights[r][n * 4 + work.lane % 4];
        AddCodeHeads(sums, weight, score);
        const float mine_sum = work.run % 2 == 0 ? score[0] : score[1];
        work.Store(at, r, mine, CodeOfSum(mine_sum, position < shared.visible[r]));
      }
    }
    stream.Advance();
  }
}

#endif

// Behind PrepareCodesKernel, or another of its own. Grid: runs of units, tiles of at most kMost
// rows; a warpgroup a block. Codes are stored of whole sixteens of entries, 0 where there is none.
template <int kMost>
__global__ void __launch_bounds__(4 * kWarp, kCodeBlocks)
    CodeScoreKernel(const __grid_constant__ ScoreJob job, const QueryCodes source) {
#ifdef THALWEG_WGMMA
  extern __shared__ __align__(1024) uint8_t code_dynamic[];
  auto& shared = *reinterpret_cast<CodeShared<kMost>*>(code_dynamic);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  LetNextKernelStart();
  // Keys are there, and so is the list of candidates: PrepareCodesKernel has waited for them.
  const RowTile tile = TileOf(job, blockIdx.y);
  const PagedRows rows = job.p.keys[job.p.row_sequence[tile.first]];
  Entries entries;
  const int count = CountOf(job, tile, &entries);
  const int all = (count + kTeamKeys - 1) / kTeamKeys, team = static_cast<int>(blockIdx.x);
  const int stride = static_cast<int>(gridDim.x);
  const int units = team < all ? (all - team - 1) / stride + 1 : 0;
  const bool whole = entries.blocks == nullptr && rows.rows_per_block % kUnitKeys == 0;
  CodeStream stream{shared.streams[warp], rows,  entries, team * kTeamKeys + warp * kUnitKeys,
                    stride * kTeamKeys,   count, units,   whole};
  stream.Open();
  AwaitKernelBefore();
  LoadQueryCodes(source, tile, job, &shared);
  if (units == 0) return;
  const int64_t first = (tile.first - job.first_row) * job.stride;
  uint16_t* codes = job.codes + first;
  asm volatile("" : "+l"(codes));  // is not made anew for each key
  const CodeWork work{job,
                      stream,
                      tile,
                      KeysDescriptor(shared.queries[0]),
                      whole,
                      codes,
                      job.best == nullptr ? nullptr : job.best + first / kRunKeys};
  if constexpr (kMost == 1) {
    uint32_t weight[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) weight[n] = shared.weights[0][n * 4 + lane % 4];
    ScoreOneRow(work, weight, shared.visible[0]);
  } else {
    ScoreRows(work, shared);
  }
#endif
}

// Blocks of equal parts of a tile: as many as the device holds at once where they are short, twice
// as many else; or `waves` times.
template <int kMost>
void LaunchCodeTeams(const ScoreJob& job, const QueryCodes& queries, int64_t tiles, Queue* queue,
                     int64_t waves) {
  constexpr int64_t kResident = int64_t{132} * kCodeBlocks, kShort = 16;
  const int64_t units = base::CeilDiv<int64_t>(EntriesOfRow(job), kTeamKeys);
  const auto share = [&](int64_t times) {
    return base::CeilDiv(units, std::max<int64_t>(1, times * kResident / tiles));
  };
  const int64_t each = share(waves > 0 ? waves : share(1) <= kShort ? 1 : 2);
  const dim3 grid(Count(base::CeilDiv<int64_t>(units, each)), Count(tiles));
  constexpr auto kShared = static_cast<int>(sizeof(CodeShared<kMost>));
  AllowShared(queue, CodeScoreKernel<kMost>, kShared);
  LaunchEarly(queue, CodeScoreKernel<kMost>, grid, 4 * kWarp, kShared, job, queries);
}

// Tiles of one row have a kernel of their own.
inline void LaunchCodeScores(const ScoreJob& job, const QueryCodes& queries, int64_t tiles,
                             int64_t most_rows, Queue* queue, int64_t waves = 0) {
  if (most_rows == 1) return LaunchCodeTeams<1>(job, queries, tiles, queue, waves);
  LaunchCodeTeams<kFastTileRows>(job, queries, tiles, queue, waves);
}

}  // namespace thalweg::kernels::cuda
