// Rows of a layer on their way to the ranks that have their experts, and results on their way back
// (spec/model.md 2.6, spec/decoding.md 7.2). Widths of quantised rows are multiples of 32.
#pragma once

#include "kernels/ops.h"

namespace thalweg::kernels {

// Row rows[i] of x, quantised already, as the codes and scales that it is: out [count][RowBytes].
struct PickRowsParams {
  Stream stream;
  int64_t count = 0, width = 0;
  RowFormat format = RowFormat::kFp8E8M0;
  const int32_t* rows = nullptr;  // (host) [count]
  const BF16* x = nullptr;        // [any, width]
  uint8_t* out = nullptr;
};

// The values of row rows[i] of those that came: out [count, width].
struct UnpackRowsParams {
  Stream stream;
  int64_t count = 0, width = 0;
  RowFormat format = RowFormat::kFp8E8M0;
  const int32_t* rows = nullptr;  // (host) [count]
  const uint8_t* came = nullptr;  // [any][RowBytes]
  BF16* out = nullptr;
};

// What the experts of a row gave, added up in fp32 in the order of its slots, the shared expert
// last: out [rows, width].
struct SumResultsParams {
  Stream stream;
  int64_t rows = 0, topk = 0, width = 0;
  const int32_t* at = nullptr;    // (host) [rows, topk]: which of the results
  const BF16* results = nullptr;  // [any, width]
  const BF16* shared = nullptr;   // [rows, width]
  BF16* out = nullptr;
};

struct ExchangeOps {
  void (*pick_rows)(const PickRowsParams& params) = nullptr;
  void (*unpack_rows)(const UnpackRowsParams& params) = nullptr;
  void (*sum_results)(const SumResultsParams& params) = nullptr;
};

// Of a device, for rows that lie on it; null where rows lie in host memory, or a device has none.
const ExchangeOps* ExchangeOpsOf(const Ops& ops);
// For rows in host memory, whatever backend computes them: the fastest of this processor, all of
// which give the bits of tensor::EncodeRow and DecodeRow, and of sums in fp32.
const ExchangeOps& HostExchangeOps();

}  // namespace thalweg::kernels
