// Rows of a layer on their way to the ranks that have their experts, and results on their way back
// (kernels/exchange.h), in host memory.
#pragma once

#include "kernels/cpu/decode.inc.h"
#include "kernels/cpu/rows.inc.h"
#include "kernels/exchange.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int64_t kExchangedWorthAThread = 1 << 15;  // values

// Rows [begin, end) on some thread each; a stream without a team has the caller's.
template <typename Body>
void ForExchanged(const Stream& stream, int64_t rows, int64_t values_of_a_row, const Body& body) {
  if (rows == 0) return;
  if (stream.team == nullptr) return body(int64_t{0}, rows);
  stream.team->ParallelFor(rows, Most(1, kExchangedWorthAThread / Most(1, values_of_a_row)), body);
}

void PickRows(const PickRowsParams& p) {
  const int64_t bytes = tensor::RowBytes(p.format, p.width);
  ForExchanged(p.stream, p.count, p.width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      Encode(p.format, p.x + p.rows[i] * p.width, p.width, p.out + i * bytes);
  });
}

void UnpackRow(RowFormat format, const uint8_t* came, int64_t width, BF16* out) {
  if (format != RowFormat::kBF16) return DecodeCacheRow(format, came, width, out);
  __builtin_memcpy(static_cast<void*>(out), came, static_cast<size_t>(width) * sizeof(BF16));
}

void UnpackRows(const UnpackRowsParams& p) {
  const int64_t bytes = tensor::RowBytes(p.format, p.width);
  ForExchanged(p.stream, p.count, p.width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      UnpackRow(p.format, p.came + p.rows[i] * bytes, p.width, p.out + i * p.width);
  });
}

void SumRow(const SumResultsParams& p, int64_t row) {
  const int32_t* at = p.at + row * p.topk;
  for (int64_t c = 0; c < p.width; c += kLanes) {
    const int64_t n = p.width - c;
    F sum = Zero();
    for (int64_t k = 0; k < p.topk; ++k) sum = sum + LoadFirst(p.results + at[k] * p.width + c, n);
    StoreFirst(p.out + row * p.width + c, sum + LoadFirst(p.shared + row * p.width + c, n), n);
  }
}

void SumResults(const SumResultsParams& p) {
  ForExchanged(p.stream, p.rows, p.width * (p.topk + 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) SumRow(p, row);
  });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
