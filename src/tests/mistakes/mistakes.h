// Typical mistakes of an implementation, one at a time, as deviations from the reference backend:
// wrapped op entries and cache formats. Test-only: the op table and the formats of a model are the
// seam, nothing in the engine knows of them.
#pragma once

#include <span>
#include <string_view>

#include "checkpoint/config.h"
#include "kernels/ops.h"
#include "tools/verify/verify.h"

namespace thalweg::tests {

struct Mistake {
  std::string_view name;  // as in the sensitivity table
  // What deviates: entries of a copy of the reference's op table, formats, or both.
  void (*change_ops)(kernels::Ops* ops) = nullptr;
  void (*change_formats)(tools::VerifyOptions* options) = nullptr;
};

std::span<const Mistake> Mistakes();

// The kinds of change, each in its own file.
void TransposeComb(kernels::Ops* ops);
void UseOwnPreMix(kernels::Ops* ops);
void IgnoreSink(kernels::Ops* ops);
void SkipInverseRope(kernels::Ops* ops);
void ShortenWindow(kernels::Ops* ops);
void UsePlainRopeAtRatioOne(kernels::Ops* ops);
void IgnoreYarn(kernels::Ops* ops);
void IgnoreIndexer(kernels::Ops* ops);
void IgnoreCandidates(kernels::Ops* ops);
void ShortenTopk(kernels::Ops* ops);
void WeightBehindDown(kernels::Ops* ops);
void BiasInWeights(kernels::Ops* ops);
void SkipNormalisation(kernels::Ops* ops);
void UseSigmoidScores(kernels::Ops* ops);
void SkipClamp(kernels::Ops* ops);
void SkipSignedRoot(kernels::Ops* ops);
void TurnEngramOff(kernels::Ops* ops);

// The rope mistakes have to know the model's frequencies and which layer runs. Call before a run.
void SetRopeConfig(const checkpoint::Config& config);

}  // namespace thalweg::tests
