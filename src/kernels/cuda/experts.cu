// Which tiles the experts of a call run through.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/experts_rows.cuh"

namespace thalweg::kernels::cuda {
namespace {

// Rows of one pass: bounds the scratch, (topk + 1) * (inner + hidden) bf16 values a row.
constexpr int64_t kPassRows = 8192;

// Tiles by the rows that most experts have, at most.
using ExpertsOfFew = RingShape<1, 4, 3, 5, 8>;  // of calls of few rows
using ExpertsTo8 = RingShape<2, 6, 3, 2, 8>;
using ExpertsTo32 = RingShape<2, 2, 5, 2, 8, 16, 32>;
using ExpertsTo64 = WideShape<1, 2, 6, 2, 32, 64>;
using ExpertsTo96 = WideShape<3, 1, 6, 1, 96>;
using ExpertsOfMany = WideShape<1, 1, 4, 2, 160>;

// The same for products of codes.
using CodesTo32 = CodesShape<4, 4, 4, 1, 1, 1, 8, 16, 32>;
using CodesMany = CodesShape<3, 4, 3, 1, 1, 2, 48, 64, 80, 96>;

constexpr int64_t kFewRows = 3;

// Rows that an expert gets, most of them.
double MostRows(const ExpertsParams& p) {
  const double each = static_cast<double>(p.rows * p.topk) / static_cast<double>(p.experts.size());
  return std::min(static_cast<double>(p.rows), each + 3 * std::sqrt(each));
}

// By the rows that experts get, most of them: a wider tile than they fill is work for nothing, a
// narrower one reads weights again (from the cache, as a rule).
void ChoosePacked(Queue* queue, const ExpertsParams& p) {
  const bool ring = p.hidden % kUnitCols == 0 && p.inner % kUnitCols == 0 &&
                    CopiesInPieces(p.x, p.hidden, p.hidden);
  if (!ring) return RunPass<OddUnits, Operand::kUnits>(queue, p);
  const double most = MostRows(p);
  if (p.rows <= kFewRows) return RunPass<ExpertsOfFew, Operand::kUnits>(queue, p);
  if (most <= 11) return RunPass<ExpertsTo8, Operand::kUnits>(queue, p);
  if (most <= 36) return RunPass<ExpertsTo32, Operand::kUnits>(queue, p);
  if (most <= 68) return RunPass<ExpertsTo64, Operand::kUnits>(queue, p);
  if (most <= 100) return RunPass<ExpertsTo96, Operand::kUnits>(queue, p);
  return RunPass<ExpertsOfMany, Operand::kUnits>(queue, p);
}

void ChooseCodes(Queue* queue, const ExpertsParams& p) {
  if (CallTakes(p)) return RunCall(queue, p);
  if (MostRows(p) <= 36) return RunCodes<CodesTo32>(queue, p);
  RunCodes<CodesMany>(queue, p);
}

void ChooseExperts(Queue* queue, Numerics numerics, const ExpertsParams& p) {
  if (OperandOf(p.shared.w1) == Operand::kUnits) {
    return numerics == Numerics::kFast ? ChooseCodes(queue, p) : ChoosePacked(queue, p);
  }
  if (p.rows <= 8) return RunPass<FewHalves, Operand::kHalves>(queue, p);
  RunPass<ManyHalves, Operand::kHalves>(queue, p);
}

// One kernel reads all weights in one way: all are packed or none, and gate and up have one format.
bool OneWay(const ExpertsParams& p) {
  const bool packed = p.shared.w1.packed != nullptr;
  const auto fits = [&](const FeedForward& expert) {
    bool all = expert.w1.format == expert.w3.format;
    for (const Matrix* w : {&expert.w1, &expert.w3, &expert.w2}) {
      all = all && (w->packed != nullptr) == packed && w->format != WeightFormat::kF32;
    }
    return all;
  };
  return fits(p.shared) && std::all_of(p.experts.begin(), p.experts.end(), fits);
}

void ExpertsBy(Numerics numerics, const ExpertsParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  if (!OneWay(p)) return queue.Note(cudaErrorNotSupported);
  for (int64_t done = 0; done < p.rows; done += kPassRows) {
    ExpertsParams pass = p;
    pass.rows = std::min(kPassRows, p.rows - done);
    pass.x += done * p.hidden;
    pass.chosen += done * p.topk;
    pass.weights += done * p.topk;
    pass.out += done * p.hidden;
    ChooseExperts(&queue, numerics, pass);
  }
}

}  // namespace

void Experts(const ExpertsParams& p) { ExpertsBy(Numerics::kExact, p); }
void ExpertsFast(const ExpertsParams& p) { ExpertsBy(Numerics::kFast, p); }

}  // namespace thalweg::kernels::cuda
