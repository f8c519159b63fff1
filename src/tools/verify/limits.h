// The limits of a golden manifest, for one kind of engine.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "kernels/ops.h"
#include "tools/verify/golden.h"

namespace thalweg::tools {

// Of a tensor against its stored form: relative RMS of the whole, and of the median row where the
// manifest states one.
struct DenseLimit {
  double relative_rms = 0;
  std::optional<double> median_row;
};

// Of short prompts, in a same-rounding engine: this share of positions has every logit within
// `within`. The manifest writes both numbers into the key.
struct ShortPromptLimit {
  int64_t tokens = 0;
  double within = 0;
  double fraction = 0;
};

struct Limits {
  bool same_rounding = false;
  // Products round activations to int8 (Numerics::kFast): limits are wider, and what counts in
  // steps of the index quantiser is not judged.
  bool int8 = false;

  // Layer-local.
  DenseLimit attn_out, moe_out, streams_out;
  double cache_elements = 0;  // share of elements that may differ,
  double cache_steps = 1;     // by so many quantiser steps
  double router_gap = 0;
  double router_weight = 0;
  double coefficients = 0;  // hyper-connection coefficients, absolute, from equal streams

  // End to end.
  double mean_kl = 0, kl_max = 0;
  double argmax_agreement = 0;
  double argmax_margin = 0;
  std::optional<double> median_logit;  // free only: median over all positions of max|dlogit|
  double median_factor = 1;            // on the limits that a prompt's own noise gives its median
  std::optional<ShortPromptLimit> short_prompts;

  double decode_margin = 0;
  double draft_margin = 0;
  double draft_confidence = 0;
};

// The limits for this backend: of its kind, widened for its numerics (docs/numerics.md). An error
// names the number that the manifest lacks.
Result<Limits> ReadLimits(const GoldenFolder& golden, const kernels::Ops& ops);

}  // namespace thalweg::tools
