// How many drafts a step verifies, and whose (spec/decoding.md 1.5). Two decisions, because what is
// verified must not depend on the drafts themselves (rejection sampling would be biased):
//
// - the budget, how many drafts in all, comes from confidences of earlier steps;
// - the allocation, whose they are, from the current ones: the best by survival. A later slot of a
//   sequence never comes before an earlier one, and the confidence in slot k knows drafts before k
//   alone, so whether slot k is verified is a function of x_<k and of other sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/cost_table.h"

namespace thalweg::spec {

// The step that is being planned, apart from drafts.
struct StepLoad {
  int64_t sequences = 0;      // that decode: a row and a token each, and drafts if any
  int64_t drafting = 0;       // of them, those that a block is drafted for
  int64_t other_rows = 0;     // of prompts
  int64_t other_samples = 0;  // prompts that end here, with a token each
  int64_t max_drafts = 0;     // rows that are left for drafts, whatever they bring
  bool operator==(const StepLoad&) const = default;
};

// Of the sequences that decode alone: rows of prompts and the tokens at their ends come with drafts
// and without, and what they cost is in neither time.
struct Budget {
  int64_t drafts = 0;        // to verify in all; 0 is a normal answer
  double tokens = 0;         // expected of the step
  double seconds = 0;        // of the step, drafting included
  double plain_seconds = 0;  // of the step without drafts and drafting
  double plain_rate = 0;     // and its tokens a second

  double rate() const { return tokens / seconds; }
  // Speed with drafts over speed without; above 1 they pay. Nothing decodes: 1.
  double gain() const { return plain_rate > 0 ? rate() / plain_rate : 1; }
};

// The step with the `drafts` highest survivals verified, or with all of them.
Budget BudgetOf(const CostTable& costs, const StepLoad& load, std::span<const double> survivals,
                int64_t drafts);

// The number of drafts with the highest expected rate of tokens, of equal ones the smallest.
// survivals: of every slot of every sequence that drafts, of earlier steps, in any order; the sum
// is taken from the largest down, so order changes no bit.
Budget ChooseBudget(const CostTable& costs, const StepLoad& load,
                    std::span<const double> survivals);

// Gives `budget` drafts to the slots with the highest survival; ties go to the earlier slot, then
// to the earlier sequence, whatever was drafted. survivals: [sequences, slots], of this step; what
// rises within a sequence counts as its predecessor. most: what each sequence may have at most (its
// limit of tokens, its setting), which no draft decides. lengths[s]: drafts of s to verify, a
// prefix of its block; they add up to the budget, or to all that `most` allows.
void Allocate(std::span<const double> survivals, std::span<const int32_t> most, int64_t budget,
              std::span<int32_t> lengths);

}  // namespace thalweg::spec
