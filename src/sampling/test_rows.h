// Rows of logits for tests: made from a seed, with as many ties as asked for.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "sampling/sampler.h"

namespace thalweg::sampling {

// Roughly normal with deviation `spread`; step > 0 rounds to its multiples, which makes ties.
inline std::vector<float> RandomRow(int64_t vocab, uint64_t seed, double spread, double step = 0) {
  std::vector<float> row(static_cast<size_t>(vocab));
  for (size_t v = 0; v < row.size(); ++v) {
    const base::PhiloxCounter w =
        base::Philox4x32({static_cast<uint32_t>(v), 0, 0, 99}, base::PhiloxKeyOf(seed));
    double sum = -6;
    for (const uint32_t word : w) sum += 3 * base::OpenUnit(word);
    const double x = spread * sum;
    row[v] = static_cast<float>(step > 0 ? std::round(x / step) * step : x);
  }
  return row;
}

inline uint32_t RandomWord(uint64_t seed, uint32_t at) {
  return base::Philox4x32({at, 0, 0, 98}, base::PhiloxKeyOf(seed))[0];
}

// A draw of a sequence with this history; all of it prompt.
inline Result<RowSample> Draw(std::vector<float> logits, step::SamplingParams params,
                              int64_t position, std::vector<int32_t> history = {},
                              const Processor* processor = nullptr) {
  Scratch scratch;
  const auto prompt = static_cast<int64_t>(history.size());
  const SequenceState state(std::move(params), static_cast<int64_t>(logits.size()),
                            std::move(history), prompt);
  return SampleRow(logits, state, position, processor, &scratch);
}

}  // namespace thalweg::sampling
