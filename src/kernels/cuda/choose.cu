// The token of each row from its logits: the largest, or the winner of a Gumbel race, with the bits
// of the host's sampler (docs/sampling.md). Philox counts in integers, and logarithms are IEEE
// additions, multiplications and divisions alone: this file is compiled without fused ones.
#include <climits>
#include <cmath>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSplits = 32;  // blocks that share a row
constexpr int kQuad = 4;     // tokens of one Philox call
constexpr int kMaskBits = 32;

// The leader of some tokens, and what their logits are like.
struct Part {
  double value = -INFINITY;
  int32_t token = INT_MAX;
  float top = -INFINITY;  // the largest logit
  int32_t nan = 0;        // whether one is no number

  __device__ void Try(double other, int32_t id) {
    if (other > value || (other == value && id < token)) {
      value = other;
      token = id;
    }
  }
  __device__ void Merge(const Part& other) {
    Try(other.value, other.token);
    top = fmaxf(top, other.top);
    nan |= other.nan;
  }
};

struct Words {
  uint32_t word[kQuad];
};

// Philox4x32-10 (base/rng.h).
__device__ Words RandomWords(const ChooseRow& row, uint32_t block) {
  const auto at = static_cast<uint64_t>(row.position);
  uint32_t c0 = static_cast<uint32_t>(at), c1 = static_cast<uint32_t>(at >> 32);
  uint32_t c2 = block, c3 = 0;  // the noise of targets
  uint32_t k0 = static_cast<uint32_t>(row.seed), k1 = static_cast<uint32_t>(row.seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// sampling::Log, operation by operation.
__device__ double Log(double x) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(x));
  const uint64_t above = (bits & 0xfffffffffffffu) > 0x6a09e667f3bcdu ? 1 : 0;
  const auto exponent = static_cast<int64_t>((bits >> 52) + above) - 1023;
  const double m = __longlong_as_double(
      static_cast<int64_t>((bits & 0xfffffffffffffu) | ((1023 - above) << 52)));
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 1.0 / 23;
  series = series * z + 1.0 / 21;
  series = series * z + 1.0 / 19;
  series = series * z + 1.0 / 17;
  series = series * z + 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  const auto e = static_cast<double>(exponent);
  constexpr double kLn2High = 0x1.62e42fefa0000p-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;
  return e * kLn2High + (2 * s + (2 * s * z * series + e * kLn2Low));
}

__device__ double Gumbel(uint32_t word) {
  const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
  return -Log(-Log(u));
}

// At least Gumbel(word) (sampling::NoiseBound).
__device__ float GumbelBound(uint32_t word) {
  const float cells = 2 * static_cast<float>(static_cast<int32_t>(~word >> 1)) + 0.5f;
  const auto bits = static_cast<float>(__float_as_int(cells));
  return 0.69314718f * (159.0f - bits * 0x1p-23f) + 1e-4f;
}

// Which of a quad's tokens may come, a bit each. mask: of the row, null: all of them.
__device__ uint32_t AllowedOf(const uint32_t* mask, int64_t quad) {
  constexpr int kQuads = kMaskBits / kQuad;  // of a word
  return mask == nullptr ? ~0u : mask[quad / kQuads] >> (quad % kQuads * kQuad);
}

__device__ void TryQuad(const ChooseParams& p, const ChooseRow& row, const float* logits,
                        int64_t quad, uint32_t allowed, float inverse, Part* part) {
  const bool race = row.temperature > 0;
  Words words = {};
  if (race) words = RandomWords(row, static_cast<uint32_t>(quad));
  for (int i = 0; i < kQuad; ++i) {
    const int64_t token = quad * kQuad + i;
    if (token >= p.vocab) return;
    const float logit = logits[token];
    part->nan |= isnan(logit) ? 1 : 0;
    part->top = fmaxf(part->top, logit);
    if ((allowed >> i & 1) == 0) continue;
    if (!race) {
      part->Try(static_cast<double>(logit), static_cast<int32_t>(token));
      continue;
    }
    // Below it nobody wins, whatever was rounded.
    const double bar = part->value - (1e-4 + 1e-6 * fabs(part->value));
    if (logit * inverse + GumbelBound(words.word[i]) < __double2float_rd(bar)) continue;
    const double value = static_cast<double>(logit) / row.temperature + Gumbel(words.word[i]);
    part->Try(value, static_cast<int32_t>(token));
  }
}

__device__ Part MergeLanes(Part part) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    Part other;
    other.value = __shfl_xor_sync(kAllLanes, part.value, step);
    other.token = __shfl_xor_sync(kAllLanes, part.token, step);
    other.top = __shfl_xor_sync(kAllLanes, part.top, step);
    other.nan = __shfl_xor_sync(kAllLanes, part.nan, step);
    part.Merge(other);
  }
  return part;
}

__global__ void __launch_bounds__(kThreads) PartKernel(ChooseParams p, Part* parts) {
  __shared__ Part warps[kThreads / kWarp];
  const int64_t row = blockIdx.y;
  const ChooseRow choice = p.choices[row];
  if (choice.slot == ChooseRow::kNotChosen) return;
  const float* logits = p.logits + row * p.stride;
  const uint32_t* mask =
      choice.mask < 0 ? nullptr : p.masks + choice.mask * ((p.vocab + kMaskBits - 1) / kMaskBits);
  const auto inverse = static_cast<float>(1 / choice.temperature);
  const int64_t quads = (p.vocab + kQuad - 1) / kQuad;
  Part part;
  for (int64_t quad = int64_t{blockIdx.x} * kThreads + threadIdx.x; quad < quads;
       quad += int64_t{kSplits} * kThreads) {
    TryQuad(p, choice, logits, quad, AllowedOf(mask, quad), inverse, &part);
  }
  part = MergeLanes(part);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kThreads / kWarp; ++i) part.Merge(warps[i]);
  parts[row * kSplits + blockIdx.x] = part;
}

__device__ int32_t TokenOf(const Part& part) {
  if (part.nan != 0 || !isfinite(part.top)) return kNotFinite;
  return part.value == -INFINITY ? kNothingLeft : part.token;
}

// A warp a row, a lane a split.
__global__ void __launch_bounds__(kWarp) WinnerKernel(ChooseParams p, const Part* parts) {
  static_assert(kSplits == kWarp);
  const int64_t row = blockIdx.x;
  const int32_t slot = p.choices[row].slot;
  int32_t token = kNoToken;
  if (slot != ChooseRow::kNotChosen)
    token = TokenOf(MergeLanes(parts[row * kSplits + threadIdx.x]));
  if (threadIdx.x != 0) return;
  if (p.tokens != nullptr) p.tokens[row] = token;
  if (slot >= 0) p.newest[slot] = max(token, 0);  // a token, for rows that are planned already
}

}  // namespace

void Choose(const ChooseParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  ChooseParams d = p;
  d.choices = queue.Stage(p.choices, p.rows);
  d.masks = queue.Stage(p.masks, p.masks_count * base::CeilDiv<int64_t>(p.vocab, kMaskBits));
  auto* parts =
      static_cast<Part*>(queue.Scratch(p.rows * kSplits * static_cast<int64_t>(sizeof(Part))));
  if (parts == nullptr) return;
  PartKernel<<<dim3(kSplits, Count(p.rows)), kThreads, 0, queue.stream()>>>(d, parts);
  WinnerKernel<<<Count(p.rows), kWarp, 0, queue.stream()>>>(d, parts);
}

}  // namespace thalweg::kernels::cuda
