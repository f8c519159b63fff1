// Whether decoded tokens follow the target's law: counts of sequences of three tokens against the
// product of the target's conditional laws, with processing and truncations.
#pragma once

#include <gtest/gtest.h>

#include "spec/test_world.h"

namespace thalweg::spec {

inline constexpr int64_t kVocab = 6;
inline constexpr size_t kDepth = 3;  // tokens that are counted together
inline const std::vector<int32_t> kPrompt = {2};

struct World {
  ToyModel target;
  ToyDrafter drafter;
  step::SamplingParams params;
  ToyMasks masks = {};

  World(uint64_t seed, double share, step::SamplingParams p)
      : target(kVocab, seed, 1.5), drafter(&target, seed + 50, share), params(std::move(p)) {}
};

// The probabilities of the next token, from the definitions: draws of the sampler are tested
// elsewhere, this is what they follow.
inline std::vector<double> LawOf(World* w, const std::vector<int32_t>& history) {
  sampling::SequenceState state(w->params, kVocab, history, 1);
  std::vector<float> logits = w->target.Logits(history);
  std::vector<uint32_t> words;
  if (w->masks) words = w->masks(history);
  std::vector<double> law(kVocab, 0);
  sampling::Scratch scratch;
  const sampling::Chooser chooser = [&](std::span<const float> processed, sampling::Entry best) {
    sampling::ChooseBuffers buffers;
    const Law computed(processed, best, w->params, &buffers);
    double sum = 0;
    for (int32_t v = 0; v < kVocab; ++v) {
      if (!computed.Keeps(v)) continue;
      const double l = (static_cast<double>(processed[static_cast<size_t>(v)]) - best.logit);
      sum += law[static_cast<size_t>(v)] = std::exp(l / w->params.temperature);
    }
    for (double& p : law) p /= sum;
    return best.token;
  };
  EXPECT_TRUE(sampling::SampleRow({.logits = logits,
                                   .state = &state,
                                   .position = 1,
                                   .mask = {.words = words},
                                   .chooser = &chooser},
                                  &scratch)
                  .ok());
  return law;
}

// Probabilities of every sequence of kDepth tokens.
inline std::vector<double> Product(World* w) {
  std::vector<double> all;
  for (int32_t a = 0; a < kVocab; ++a) {
    const auto first = LawOf(w, {2});
    for (int32_t b = 0; b < kVocab; ++b) {
      const double before = first[static_cast<size_t>(a)];
      const auto second = before > 0 ? LawOf(w, {2, a}) : std::vector<double>(kVocab, 0);
      const double pair = before * second[static_cast<size_t>(b)];
      const auto third = pair > 0 ? LawOf(w, {2, a, b}) : std::vector<double>(kVocab, 0);
      for (int32_t c = 0; c < kVocab; ++c) all.push_back(pair * third[static_cast<size_t>(c)]);
    }
  }
  return all;
}

// Sums over the last tokens: of pairs, of singles.
template <typename T>
std::vector<T> Marginal(const std::vector<T>& all, size_t size) {
  std::vector<T> sums(size, 0);
  for (size_t i = 0; i < all.size(); ++i) sums[i / (all.size() / size)] += all[i];
  return sums;
}

struct Outcome {
  ChiSquare singles, pairs, triples;
  bool passes() const { return singles.passes() && pairs.passes() && triples.passes(); }
};

inline Outcome Judge(const std::vector<int64_t>& counts, const std::vector<double>& law) {
  const auto v = static_cast<size_t>(kVocab);
  return {Compare(Marginal(counts, v), Marginal(law, v)),
          Compare(Marginal(counts, v * v), Marginal(law, v * v)), Compare(counts, law)};
}

inline void ExpectPasses(const Outcome& o) {
  EXPECT_FALSE(o.triples.impossible);
  EXPECT_LT(o.singles.value, o.singles.bound);
  EXPECT_LT(o.pairs.value, o.pairs.bound);
  EXPECT_LT(o.triples.value, o.triples.bound);
}

}  // namespace thalweg::spec
