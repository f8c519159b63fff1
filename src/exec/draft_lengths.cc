#include "exec/draft_lengths.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "spec/confidence.h"
#include "spec/verification.h"

namespace thalweg::exec {
namespace {

// [entries, slots]
std::vector<double> SurvivalsOf(std::span<const LengthEntry> entries, size_t slots,
                                const spec::DraftPlanner& planner) {
  std::vector<double> survivals(entries.size() * slots, 0.0);
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::span<const float> confidences = entries[i].confidences;
    spec::Survivals(confidences, planner.temperatures(), planner.shifts(),
                    std::span(survivals).subspan(i * slots, confidences.size()));
  }
  return survivals;
}

}  // namespace

DraftLengths ChooseLengths(const DraftOptions& options, std::optional<spec::DraftPlanner>* planner,
                           uint64_t step, std::span<const LengthEntry> entries,
                           int64_t other_rows) {
  DraftLengths out;
  std::vector<spec::PlannedSequence> sequences;
  int64_t room = 0;
  for (const LengthEntry& e : entries) {
    sequences.push_back(
        {.sequence = e.sequence, .decodes = e.decodes, .tokens_left = e.tokens_left});
    out.verify.push_back(e.most);
    out.draft.push_back(e.tokens_left > 1 ? 1 : 0);
    room += e.room;
  }
  if (!planner->has_value()) return out;
  const spec::StepDrafts plan = (*planner)->Plan(step, sequences, other_rows, room);
  out.context = plan.context;
  int64_t allowed = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    out.verify[i] = std::min(out.verify[i], plan.most[i]);
    out.draft[i] = plan.draft[i];
    allowed += out.verify[i];
  }
  if (allowed == 0) return out;  // no blocks are there: nothing is to be shared out
  const int64_t budget = std::min(allowed, plan.budget.drafts);
  if (!options.variable && budget > 0) return out;
  const std::vector<int32_t> most = out.verify;
  spec::Allocate(SurvivalsOf(entries, static_cast<size_t>(options.drafts), **planner), most, budget,
                 out.verify);
  return out;
}

void LogDrafting(const std::optional<spec::DraftPlanner>& planner) {
  if (!planner.has_value()) return;
  const spec::LoadGate::Counts& c = planner->counts();
  spdlog::info(
      "drafting: on in {} of {} steps, context written in {}, {} tries, begun again {} times",
      c.open, c.steps, c.context, c.tries, c.openings);
}

}  // namespace thalweg::exec
