// A world to decode in for tests: target and drafter are tables of logits over short histories, and
// a sequence is decoded with or without drafts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "spec/acceptance.h"

namespace thalweg::spec {

// A number in (0, 1) that is a function of its arguments.
inline double TestUniform(uint64_t seed, uint32_t a, uint32_t b = 0) {
  return base::OpenUnit(base::Philox4x32({a, b, 0, 77}, base::PhiloxKeyOf(seed))[0]);
}

// Logits as a function of the last two tokens.
class ToyModel {
 public:
  ToyModel(int64_t vocab, uint64_t seed, double spread)
      : vocab_(vocab), seed_(seed), spread_(spread) {}

  int64_t vocab() const { return vocab_; }

  const std::vector<float>& Logits(std::span<const int32_t> history) {
    const size_t n = history.size();
    const int32_t last = n > 0 ? history[n - 1] : -1;
    const int32_t before = n > 1 ? history[n - 2] : -1;
    std::vector<float>& row = rows_[{before, last}];
    if (row.empty()) Fill(static_cast<uint32_t>((before + 1) * 1000 + last + 1), &row);
    return row;
  }

 private:
  void Fill(uint32_t at, std::vector<float>* row) const {
    for (int64_t v = 0; v < vocab_; ++v) {
      const double u = TestUniform(seed_, at, static_cast<uint32_t>(v));
      row->push_back(static_cast<float>(spread_ * (2 * u - 1)));
    }
  }

  int64_t vocab_;
  uint64_t seed_;
  double spread_;
  std::map<std::pair<int32_t, int32_t>, std::vector<float>> rows_ = {};
};

// The target blended with noise of its own: share 1 drafts as the target, 0 knows nothing of it.
class ToyDrafter {
 public:
  ToyDrafter(ToyModel* target, uint64_t seed, double share)
      : target_(target), other_(target->vocab(), seed, 2), share_(share) {}

  std::vector<float> Logits(std::span<const int32_t> history) {
    std::vector<float> row = target_->Logits(history);
    const std::vector<float>& noise = other_.Logits(history);
    for (size_t v = 0; v < row.size(); ++v)
      row[v] = static_cast<float>(share_ * row[v] + (1 - share_) * noise[v]);
    return row;
  }

 private:
  ToyModel* target_;
  ToyModel other_;
  double share_;
};

// The block that a drafter makes behind `history`.
struct ToyBlock {
  std::vector<int32_t> tokens = {};
  std::vector<float> logits = {};
};

inline ToyBlock Draft(ToyDrafter* drafter, std::vector<int32_t> history,
                      const step::SamplingParams& params, int slots, Rule rule,
                      LawBuffers* buffers) {
  ToyBlock block;
  for (int slot = 0; slot < slots; ++slot) {
    const std::vector<float> row = drafter->Logits(history);
    const auto position = static_cast<int64_t>(history.size());
    block.tokens.push_back(*DrawDraft(row, params, position, slot, rule, buffers));
    block.logits.insert(block.logits.end(), row.begin(), row.end());
    history.push_back(block.tokens.back());
  }
  return block;
}

// Masks as a function of the history; none: everything is allowed.
using ToyMasks = std::function<std::vector<uint32_t>(std::span<const int32_t>)>;

// A block of drafts through the target: logits of each row, and masks.
struct ToyRows {
  std::vector<float> logits = {};
  std::vector<std::vector<uint32_t>> words = {};
  std::vector<sampling::TokenMask> masks = {};
};

inline ToyRows RunTarget(ToyModel* target, std::vector<int32_t> history,
                         std::span<const int32_t> drafts, size_t rows, const ToyMasks& masks = {}) {
  ToyRows out;
  for (size_t row = 0; row < rows; ++row) {
    if (row > 0) history.push_back(drafts[row - 1]);
    const std::vector<float>& logits = target->Logits(history);
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    if (masks) out.words.push_back(masks(history));
  }
  for (const auto& words : out.words) out.masks.push_back({.words = words});
  return out;
}

// Upper bound of a chi-square variable that one in a thousand exceeds (Wilson and Hilferty).
inline double ChiSquareBound(double freedom) {
  const double h = 2 / (9 * freedom);
  const double root = 1 - h + 3.09 * std::sqrt(h);
  return freedom * root * root * root;
}

// Counts of outcomes against their probabilities.
struct ChiSquare {
  double value = 0;
  double bound = 0;
  bool impossible = false;  // something happened that cannot
  bool passes() const { return !impossible && value < bound; }
};

inline ChiSquare Compare(std::span<const int64_t> counts, std::span<const double> probabilities) {
  double draws = 0;
  for (const int64_t c : counts) draws += static_cast<double>(c);
  ChiSquare result;
  double cells = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    result.impossible |= probabilities[i] <= 0 && counts[i] > 0;
    if (expected <= 0) continue;
    const double off = static_cast<double>(counts[i]) - expected;
    result.value += off * off / expected;
    cells += 1;
  }
  result.bound = ChiSquareBound(std::max(cells - 1, 1.0));
  return result;
}

}  // namespace thalweg::spec
