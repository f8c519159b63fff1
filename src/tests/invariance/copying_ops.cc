#include "tests/invariance/copying_ops.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/stored_bytes.h"

namespace thalweg::tests {
namespace {

using kernels::FeedForward;
using kernels::Matrix;

int64_t CopyBytes(const Matrix& m) { return kernels::CodeBytes(m) + kernels::ScaleBytes(m); }

void Copy(const kernels::Stream&, const Matrix& m, void* out) {
  TW_CHECK_EQ(reinterpret_cast<uintptr_t>(out) % 64, 0u);
  std::memcpy(out, m.data, static_cast<size_t>(kernels::CodeBytes(m)));
  if (m.scales == nullptr) return;
  std::memcpy(static_cast<std::byte*>(out) + kernels::CodeBytes(m), m.scales,
              static_cast<size_t>(kernels::ScaleBytes(m)));
}

Matrix FromCopy(Matrix m) {
  if (m.data == nullptr) return m;
  TW_CHECK(m.packed != nullptr);
  m.data = m.packed;
  if (m.scales != nullptr) m.scales = static_cast<const uint8_t*>(m.packed) + kernels::CodeBytes(m);
  return m;
}

FeedForward FromCopy(const FeedForward& f) {
  return {FromCopy(f.w1), FromCopy(f.w3), FromCopy(f.w2)};
}

void Linear(const kernels::LinearParams& p) {
  std::vector<kernels::Projection> projections(p.projections.begin(), p.projections.end());
  for (kernels::Projection& one : projections) one.weight = FromCopy(one.weight);
  kernels::LinearParams copy = p;
  copy.projections = projections;
  kernels::ReferenceOps().linear(copy);
}

void GroupedLinear(kernels::GroupedLinearParams p) {
  p.weight = FromCopy(p.weight);
  kernels::ReferenceOps().grouped_linear(p);
}

void Gate(kernels::GateParams p) {
  p.weight = FromCopy(p.weight);
  kernels::ReferenceOps().gate(p);
}

void Experts(const kernels::ExpertsParams& p) {
  std::vector<FeedForward> experts;
  for (const FeedForward& expert : p.experts) experts.push_back(FromCopy(expert));
  kernels::ExpertsParams copy = p;
  copy.experts = experts;
  copy.shared = FromCopy(p.shared);
  kernels::ReferenceOps().experts(copy);
}

void Markov(kernels::MarkovParams p) {
  p.head = FromCopy(p.head);
  p.confidence = FromCopy(p.confidence);
  kernels::ReferenceOps().markov(p);
}

}  // namespace

const kernels::Ops& CopyingOps() {
  static const kernels::Ops ops = [] {
    kernels::Ops made = kernels::ReferenceOps();
    made.linear = Linear;
    made.grouped_linear = [](const kernels::GroupedLinearParams& p) { GroupedLinear(p); };
    made.gate = [](const kernels::GateParams& p) { Gate(p); };
    made.experts = Experts;
    made.markov = [](const kernels::MarkovParams& p) { Markov(p); };
    made.packed_bytes = CopyBytes;
    made.pack = Copy;
    return made;
  }();
  return ops;
}

}  // namespace thalweg::tests
