// The law of one row's token: the softmax of processed logits at a temperature, over what the
// truncations keep (docs/sampling.md). Sampling draws from it without computing it; acceptance of
// drafts has to know the probabilities (spec/decoding.md 1.6).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/best_first.h"
#include "sampling/choose.h"
#include "sampling/elementary.h"
#include "step/sampling_params.h"

namespace thalweg::spec {

// Memory that laws and draws need; grows to the vocabulary and stays. One thread at a time.
struct LawBuffers {
  sampling::ChooseBuffers choose = {};
  std::vector<float> residual = {};  // [vocab]
};

class Law {
 public:
  // logits: [vocab], processed; best: their first in order, finite. They must outlive the law.
  // The same arguments give the same bits of probability on every machine.
  Law(std::span<const float> logits, sampling::Entry best, const step::SamplingParams& params,
      sampling::ChooseBuffers* buffers);

  // Whether the token can be drawn.
  bool Keeps(int32_t token) const {
    return !sampling::Better(last_, {.logit = logits_[static_cast<size_t>(token)], .token = token});
  }
  // Natural logarithm of its probability; -inf when it cannot be drawn.
  double Log(int32_t token) const;
  std::span<const float> logits() const { return logits_; }
  sampling::Entry best() const { return best_; }

  // Probabilities of tokens [begin, begin + kExpBatch). What cannot be drawn, or is no token, has
  // one below 1e-300, which no float holds.
  void Probabilities(size_t begin, sampling::ExpBatch* batch) const;

 private:
  // Logarithms up to log_sum_; kNever for what cannot be drawn.
  void Exponents(size_t begin, sampling::ExpBatch* batch) const;

  std::span<const float> logits_;
  sampling::Entry best_;
  sampling::Entry last_;  // the last that truncations keep
  double inverse_ = 1;    // of the temperature
  double log_sum_ = 0;    // of exp((logit - best) * inverse) over what is kept
};

// What is left to draw when a draft from `draft` was rejected: max(p - q, 0) as weights [vocab].
// Where less than kLeastResidual is left, which is rounding, p itself takes its place: false.
inline constexpr double kLeastResidual = 1e-8;
bool ResidualOf(const Law& target, const Law& draft, std::vector<float>* left);
// The same for a draft that came with certainty: p without it.
bool ResidualOf(const Law& target, int32_t draft, std::vector<float>* left);

}  // namespace thalweg::spec
