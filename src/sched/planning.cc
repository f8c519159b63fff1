// One plan: decode rows first, then prompts under way, then new ones, within the row budget.
#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "sched/state.h"

namespace thalweg::sched {
namespace {

constexpr int64_t kPlansToARoom = 16;

}  // namespace

bool Scheduler::State::NextPlan(step::StepPlan* out) {
  if (static_cast<int64_t>(flight_count) > options.overlap_depth) return false;
  plan = out;
  plan->Clear();
  plan->number = next_number;
  record = &flight[(flight_begin + flight_count) % flight.size()];
  record->rows.clear();
  CompactRunning();
  ForcePreemption();
  prompt_plans = PromptsWantRows() ? prompt_plans % kPlansToARoom + 1 : 0;
  const int64_t decode_budget = DecodeBudget();
  int64_t budget = options.max_rows - decode_budget + PlanDecodes(decode_budget);
  budget = PlanPrefills(budget);
  Admit(&budget);
  // What was kept for prompts and found none.
  if (plan->rows.empty()) PlanDecodes(options.max_rows);
  CompactRunning();
  if (plan->rows.empty()) return false;
  FinishPlan();
  return true;
}

void Scheduler::State::FinishPlan() {
  plan->closes.assign(pending_closes.begin(), pending_closes.end());
  pending_closes.clear();
  record->number = next_number++;
  ++flight_count;
  ++counters.plans;
}

int64_t Scheduler::State::PrefillsUnderWay() const {
  return std::count_if(running.begin(), running.end(), [](const Sequence* s) {
    return s != nullptr && s->phase == Phase::kRunning && s->prefilling();
  });
}

bool Scheduler::State::PromptsWantRows() const {
  const bool may_begin =
      !waiting.empty() && !free_slots.empty() && waiting.front()->blocked_at != room_epoch;
  return may_begin || PrefillsUnderWay() > 0;
}

void Scheduler::State::CompactRunning() { std::erase(running, nullptr); }

// Decode rows come first. Only when they alone would fill the step while prompts are under way do
// they leave them a quarter of it, every other plan. Drafts always leave them that.
int64_t Scheduler::State::DecodeBudget() const {
  const int64_t decodes = static_cast<int64_t>(running.size()) - draining - PrefillsUnderWay();
  const int64_t share = std::max<int64_t>(1, options.max_rows / 4);
  const bool crowded = decodes > options.max_rows - share;
  const bool wanted = PromptsWantRows();
  if (wanted && crowded && next_number % 2 == 0) return options.max_rows - share;
  if (!wanted || std::max(options.draft_tokens, options.forced_tokens) == 0)
    return options.max_rows;
  // Forced text is there now and then: prompts do not leave it more than a share of their own.
  const int64_t forced = options.forced_tokens > 0 ? share : 0;
  const int64_t room = options.draft_tokens > 0 ? std::max(forced, DraftRoom()) : forced;
  return std::clamp(decodes, std::min(options.max_rows - share, decodes + room), options.max_rows);
}

// Rows that prompts leave to drafts: twice what ran lately, for where drafting has stopped they
// would wait for nothing. Only when prompts do not end there is some room now and then, for a rank
// that tries drafts again (spec::LoadGate): between prompts it has all there is.
int64_t Scheduler::State::DraftRoom() const {
  return prompt_plans == kPlansToARoom ? options.max_rows / 4 : 2 * drafted_lately;
}

int64_t Scheduler::State::MostDrafts(const Sequence& s) const {
  if (!s.request.sampling.constrained) return options.draft_tokens;
  return std::max(options.draft_tokens, options.forced_tokens);
}

// What is left of the rows when each decoding sequence has one, shared by those that draft.
int64_t Scheduler::State::DraftsEach(int64_t budget) const {
  if (std::max(options.draft_tokens, options.forced_tokens) == 0) return 0;
  int64_t decodes = 0, drafting = 0;
  for (const Sequence* s : running) {
    if (s == nullptr || s->phase != Phase::kRunning || s->prefilling()) continue;
    ++decodes;
    drafting += MostDrafts(*s) > 0 ? 1 : 0;
  }
  return drafting > 0 ? std::max<int64_t>(0, budget - decodes) / drafting : 0;
}

// Returns what is left of the budget. Those that found no place are the first of the next plan.
int64_t Scheduler::State::PlanDecodes(int64_t budget) {
  const size_t count = running.size();
  const int64_t drafts = DraftsEach(budget);
  if (decode_cursor >= count) decode_cursor = 0;
  size_t at = decode_cursor;
  for (size_t i = 0; i < count; ++i) {
    Sequence* s = running[at];
    const bool decodes = s != nullptr && s->phase == Phase::kRunning && !s->prefilling();
    if (decodes && s->planned < s->row_limit()) {
      if (budget == 0) {
        decode_cursor = at;
        return 0;
      }
      budget -= PlanDecode(s, std::min(1 + std::min(drafts, MostDrafts(*s)), budget));
    }
    at = at + 1 == count ? 0 : at + 1;
  }
  return budget;
}

// At most so many rows; returns how many there may be, 0 when it finds no block.
int64_t Scheduler::State::PlanDecode(Sequence* s, int64_t most) {
  const int64_t count = std::min(most, s->row_limit() - s->planned);
  if (!EnsureBlocks(s, s->reach(count))) return 0;
  SaveWhenDue(s, PlanRows(s, count, false, true));
  counters.decode_rows += static_cast<uint64_t>(count);
  return count;
}

int64_t Scheduler::State::PlanPrefills(int64_t budget) {
  prefills.clear();
  for (Sequence* s : running) {
    if (s != nullptr && s->phase == Phase::kRunning && s->prefilling()) prefills.push_back(s);
  }
  std::sort(prefills.begin(), prefills.end(), [](const Sequence* a, const Sequence* b) {
    return a->key != b->key ? a->key > b->key : a->arrival < b->arrival;
  });
  for (Sequence* s : prefills) {
    if (budget == 0) break;
    budget -= PlanChunk(s, budget);
  }
  return budget;
}

// As many known rows as the budget has, up to the next checkpoint. Returns their number.
int64_t Scheduler::State::PlanChunk(Sequence* s, int64_t budget) {
  const int64_t end = ChunkEnd(*s, std::min(s->known, s->planned + budget));
  const int64_t count = end - s->planned;
  TW_CHECK(EnsureBlocks(s, end));
  SaveWhenDue(s, PlanRows(s, count, true, end == s->known));
  counters.prefill_rows += static_cast<uint64_t>(count);
  return count;
}

// Blocks for rows [0, rows). Prefill rows are always promised; growth beyond what admission
// promised may cost somebody else its place, or this one its row in this plan.
bool Scheduler::State::EnsureBlocks(Sequence* s, int64_t rows) {
  const int64_t needed = base::CeilDiv(rows, cache::kBlockTokens);
  while (static_cast<int64_t>(s->blocks.size()) < needed) {
    if (s->missing_reservation() > 0) {
      --outstanding;
    } else if (ReservableBlocks() <= 0) {
      if (!MakeRoom(*s)) return false;
      continue;
    }
    const int32_t block = cache.Take();
    s->blocks.push_back(block);
    plan->blocks.push_back(block);
  }
  return true;
}

// The blocks that were taken since the last rows of any sequence are these rows' own.
PlannedRows* Scheduler::State::PlanRows(Sequence* s, int64_t count, bool known, bool sample) {
  int32_t begin = 0;
  if (!plan->rows.empty()) {
    begin = plan->rows.back().new_blocks_begin + plan->rows.back().new_blocks_count;
  }
  plan->rows.push_back({.slot = s->slot,
                        .sequence = s->request.sequence,
                        .start = s->planned,
                        .count = static_cast<int32_t>(count),
                        .known_tokens = known,
                        .sample = sample,
                        .new_blocks_begin = begin,
                        .new_blocks_count = static_cast<int32_t>(plan->blocks.size()) - begin});
  const bool drafts = !known && MostDrafts(*s) > 0;
  s->planned += drafts ? 1 : count;
  s->ahead += count;
  ++s->plans_in_flight;
  record->rows.push_back({.sequence = s, .count = count, .drafts = drafts, .sample = sample});
  return &record->rows.back();
}

}  // namespace thalweg::sched
