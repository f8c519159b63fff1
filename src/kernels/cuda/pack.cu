// fp4 and fp8 matrices as units: made once at load by the device, from the stored form. Rows are
// padded to whole slabs and columns to whole units with zeros. Units are those of operand.cuh; with
// fast numerics, but for what meets plain rows, those of codes.cuh.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operand.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr uint8_t kNaNScale = 255;

__device__ uint8_t StoredScale(const Slab& w, int64_t row, int64_t col) {
  const int64_t line = w.format == WeightFormat::kFp4 ? row : row / 32;
  return w.scales[line * (w.cols / 32) + col / 32];
}

// A code, zero outside of the matrix and under a scale of NaN.
__device__ uint32_t CodeAt(const Slab& w, int64_t row, int64_t col) {
  if (row >= w.rows || col >= w.cols || StoredScale(w, row, col) == kNaNScale) return 0;
  const auto* codes = static_cast<const uint8_t*>(w.data);
  const int64_t at = row * w.cols + col;
  if (w.format == WeightFormat::kFp8) return codes[at];
  return col % 2 == 0 ? codes[at / 2] & 15u : codes[at / 2] >> 4u;
}

// The scale of operand.cuh.
__device__ uint32_t ScaleAt(const Slab& w, int64_t row, int64_t col) {
  if (row >= w.rows || col >= w.cols) return 0;
  const int code = StoredScale(w, row, col);
  if (code == kNaNScale) return kNaNScale;
  const int offset = w.format == WeightFormat::kFp4 ? kFp4ScaleOffset : kFp8ScaleOffset;
  return static_cast<uint32_t>(min(max(code + offset, 0), 254));
}

// Row and column of value `half` of fragment register r, in lane `lane` of step
// s.
__device__ int64_t RowOf(int lane, int r) { return lane / 4 + r % 2 * 8; }
__device__ int64_t ColumnOf(int s, int lane, int r, int half) {
  return s * 16 + r / 2 * 8 + lane % 4 * 2 + half;
}

// Four codes (registers 0 to 3) as 16 bits where PairsOfFp4 finds them.
__device__ uint32_t SpreadFp4(const uint32_t (&c)[4]) {
  const auto low = [&](int i) { return c[i] & 7u; };
  const auto sign = [&](int i) { return c[i] >> 3u; };
  return sign(0) << 15 | low(0) << 6 | sign(1) << 12 | low(1) << 3 | sign(2) << 9 | low(2) |
         sign(3) << 14 | (low(3) >> 2) << 13 | (low(3) & 3u) << 10;
}
// Two codes (of one column, rows 8 apart) where PairsOfFp8 finds them.
__device__ uint32_t SpreadFp8(uint32_t a, uint32_t b) {
  return (a >> 7) << 15 | (a & 127u) << 4 | (b >> 7) << 11 | ((b >> 4) & 7u) << 12 | (b & 15u);
}

__device__ void PackFp4Unit(const Slab& w, int64_t col, int lane, uint32_t* unit) {
  for (int s = 0; s < kUnitSteps; ++s) {
    uint32_t word = 0;
    for (int half = 0; half < 2; ++half) {
      uint32_t c[4];
      for (int r = 0; r < 4; ++r) {
        c[r] = CodeAt(w, w.first + RowOf(lane, r), col + ColumnOf(s, lane, r, half));
      }
      word |= SpreadFp4(c) << (16 * half);
    }
    unit[lane * 4 + s] = word;
  }
  if (lane >= 8) return;
  uint32_t scales = 0;
  for (int i = 0; i < 4; ++i) {
    scales |= ScaleAt(w, w.first + lane + i / 2 * 8, col + i % 2 * 32) << (8 * i);
  }
  unit[128 + lane] = scales;
}

__device__ bool IsNaNOfFp8(uint32_t code) { return (code & 127u) == 127u; }

// Bits of rows from those of the lanes that hold them, four a row.
__device__ uint32_t RowsOfLanes(bool mine) {
  const uint32_t lanes = __ballot_sync(kAllLanes, mine);
  uint32_t rows = 0;
  for (int r = 0; r < 8; ++r) rows |= ((lanes >> (4 * r) & 15u) != 0 ? 1u : 0u) << r;
  return rows;
}

__device__ void PackFp8Unit(const Slab& w, int64_t col, int lane, uint32_t* unit) {
  bool upper = false,
       lower = false;  // whether rows lane / 4 and lane / 4 + 8 hold a NaN
  for (int i = 0; i < 8; ++i) {
    const int s = i / 2;
    uint32_t word = 0;
    for (int half = 0; half < 2; ++half) {
      const int64_t at = col + ColumnOf(s, lane, i % 2 * 2, half);
      const uint32_t codes[] = {CodeAt(w, w.first + RowOf(lane, 0), at),
                                CodeAt(w, w.first + RowOf(lane, 1), at)};
      word |= SpreadFp8(codes[0], codes[1]) << (16 * half);
      upper = upper || IsNaNOfFp8(codes[0]);
      lower = lower || IsNaNOfFp8(codes[1]);
    }
    unit[i / 4 * 128 + lane * 4 + i % 4] = word;
  }
  const uint32_t nan_rows = RowsOfLanes(upper) | RowsOfLanes(lower) << 8;
  if (lane >= 4) return;
  const uint32_t factor = lane < 2 ? ScaleAt(w, w.first, col + lane * 32) << 7 : 0;
  unit[256 + lane] = lane == 2 ? nan_rows : factor | factor << 16;
}

// Word i of a lane has row i % 2 * 8 + lane / 4 in the columns of
// block i / 2.
__device__ void PackFp4Codes(const Slab& w, int64_t col, int lane, uint32_t* unit) {
  for (int i = 0; i < 4; ++i) {
    const int64_t row = w.first + lane / 4 + i % 2 * 8, at = col + i / 2 * 32 + lane % 4 * 4;
    uint32_t word = 0;
    for (int p = 0; p < 4; ++p) {
      const uint32_t first = CodeAt(w, row, at + p), second = CodeAt(w, row, at + 16 + p);
      word |= (first & 7u) << (4 * p) | (first >> 3) << (8 * p + 7);
      word |= (second & 7u) << (16 + 4 * p) | (second >> 3) << (8 * p + 3);
    }
    unit[lane * 4 + i] = word;
  }
  if (lane >= 8) return;
  uint32_t scales = 0;
  for (int i = 0; i < 4; ++i) {
    const int64_t row = w.first + lane + i / 2 * 8, at = col + i % 2 * 32;
    if (row < w.rows && at < w.cols) scales |= uint32_t{StoredScale(w, row, at)} << (8 * i);
  }
  unit[128 + lane] = scales;
}

__device__ void PackFp8Codes(const Slab& w, int64_t col, int lane, uint32_t* unit) {
  for (int i = lane; i < 256; i += kWarp) {
    const int64_t row = w.first + i / 128 * 8 + i / 4 % 8, at = col + i / 32 % 4 * 16 + i % 4 * 4;
    uint32_t word = 0;
    for (int p = 0; p < 4; ++p) word |= CodeAt(w, row, at + p) << (8 * p);
    unit[i] = word;
  }
  if (lane >= 4) return;
  const int64_t at = col + lane * 32;
  const bool inside = lane < 2 && at < w.cols;
  unit[256 + lane] = inside ? __float_as_uint(FromE8M0(StoredScale(w, w.first, at))) : 0;
}

// The base exponents of a slab's rows, and whether its scales can be folded
// into codes (codes.cuh). A thread a row.
__device__ void PackFp4Bases(const Slab& w, unsigned char* bases, unsigned char* foldable) {
  const int64_t row = w.first + threadIdx.x;
  int least = 254, most = 0;
  for (int64_t col = 0; row < w.rows && col < w.cols; col += kBlockCols) {
    const int scale = StoredScale(w, row, col);
    least = min(least, scale);
    most = max(most, scale);
  }
  const int base = max(most - kBaseBelow, 0);
  const bool fits = most != kNaNScale && least >= max(base - kFoldRange, 1);
  const bool all = __all_sync((1u << kUnitRows) - 1, row >= w.rows || fits);
  bases[threadIdx.x] = static_cast<unsigned char>(all ? base : kNoBase);
  if (threadIdx.x == 0) *foldable = all ? 1 : 0;
}

// A warp a unit; blocks of one slab.
__global__ void PackCodesKernel(Matrix w, int64_t units, unsigned char* out) {
  Slab slab{w.data, w.scales, w.rows, w.cols, int64_t{blockIdx.x} * kUnitRows, w.format, false};
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bool fp4 = w.format == WeightFormat::kFp4;
  const int64_t bytes = fp4 ? kFp4UnitBytes : kFp8UnitBytes;
  for (int64_t unit = threadIdx.x / kWarp; unit < units; unit += blockDim.x / kWarp) {
    auto* to = reinterpret_cast<uint32_t*>(out + (blockIdx.x * units + unit) * bytes);
    if (fp4) {
      PackFp4Codes(slab, unit * kUnitCols, lane, to);
    } else {
      PackFp8Codes(slab, unit * kUnitCols, lane, to);
    }
  }
  if (!fp4 || threadIdx.x >= kUnitRows) return;
  unsigned char* behind = out + gridDim.x * units * bytes;
  PackFp4Bases(slab, behind + blockIdx.x * kUnitRows, behind + gridDim.x * kUnitRows + blockIdx.x);
}

// The same as operand.cuh reads them.
__global__ void PackUnitsKernel(Matrix w, int64_t units, unsigned char* out) {
  Slab slab{w.data, w.scales, w.rows, w.cols, int64_t{blockIdx.x} * kUnitRows, w.format, false};
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bool fp4 = w.format == WeightFormat::kFp4;
  for (int64_t unit = threadIdx.x / kWarp; unit < units; unit += blockDim.x / kWarp) {
    unsigned char* to = out + (blockIdx.x * units + unit) * (fp4 ? kFp4UnitBytes : kFp8UnitBytes);
    if (fp4) {
      PackFp4Unit(slab, unit * kUnitCols, lane, reinterpret_cast<uint32_t*>(to));
    } else {
      PackFp8Unit(slab, unit * kUnitCols, lane, reinterpret_cast<uint32_t*>(to));
    }
  }
}

int64_t Slabs(const Matrix& w) { return base::CeilDiv(w.rows, int64_t{kUnitRows}); }
int64_t RowUnits(const Matrix& w) { return base::CeilDiv(w.cols, int64_t{kUnitCols}); }

// Host memory copied to the device in the order of the stream, until the stream
// frees it.
const void* CopyOf(Queue* queue, const void* host, int64_t bytes) {
  void* device = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const cudaError_t error = cudaMallocAsync(&device, size, queue->stream());
  queue->Note(error);
  if (error != cudaSuccess) return nullptr;
  queue->Note(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, queue->stream()));
  return device;
}

void PackBy(void (*kernel)(Matrix, int64_t, unsigned char*), const Stream& stream,
            const Matrix& matrix, void* out) {
  Queue& queue = QueueOf(stream);
  const bool fp4 = matrix.format == WeightFormat::kFp4;
  const int64_t groups = matrix.cols / 32;
  const int64_t codes = matrix.rows * matrix.cols / (fp4 ? 2 : 1);
  const int64_t scales = (fp4 ? matrix.rows : base::CeilDiv(matrix.rows, int64_t{32})) * groups;
  Matrix device = matrix;
  device.data = CopyOf(&queue, matrix.data, codes);
  device.scales = static_cast<const uint8_t*>(CopyOf(&queue, matrix.scales, scales));
  if (device.data == nullptr || device.scales == nullptr) return;
  kernel<<<Count(Slabs(matrix)), 256, 0, queue.stream()>>>(device, RowUnits(matrix),
                                                           static_cast<unsigned char*>(out));
  queue.Note(cudaFreeAsync(const_cast<void*>(device.data), queue.stream()));
  queue.Note(cudaFreeAsync(const_cast<uint8_t*>(device.scales), queue.stream()));
  queue.Note(cudaStreamSynchronize(queue.stream()));  // the host's copy may go when this returns
}

}  // namespace

int64_t PackedBytes(const Matrix& matrix) {
  const int64_t units = Slabs(matrix) * RowUnits(matrix);
  if (matrix.format == WeightFormat::kFp4) return units * kFp4UnitBytes;
  return matrix.format == WeightFormat::kFp8 ? units * kFp8UnitBytes : 0;
}

void Pack(const Stream& stream, const Matrix& matrix, void* out) {
  PackBy(PackUnitsKernel, stream, matrix, out);
}

int64_t PackedBytesFast(const Matrix& matrix) {
  const int64_t bytes = PackedBytes(matrix);
  if (matrix.format != WeightFormat::kFp4 || matrix.inputs == Inputs::kPlain) return bytes;
  return bytes + base::RoundUp(Slabs(matrix) * (kUnitRows + 1), int64_t{16});
}

void PackFast(const Stream& stream, const Matrix& matrix, void* out) {
  if (matrix.inputs == Inputs::kPlain) return Pack(stream, matrix, out);
  PackBy(PackCodesKernel, stream, matrix, out);
}

}  // namespace thalweg::kernels::cuda
