// Which checkpoints a sequence leaves behind: where other prompts are likely to go on from.
#include <algorithm>

#include "base/math.h"
#include "sched/state.h"

namespace thalweg::sched {
namespace {

// Waiting requests that are looked at for where they branch off from a prompt.
constexpr size_t kBranchScan = 8;

// One prompt may take so much of all checkpoint slots: long ones save at longer intervals.
constexpr int64_t kShareOfOnePrompt = 4;

int64_t BlockBoundary(int64_t position) {
  return position / cache::kBlockTokens * cache::kBlockTokens;
}

// Blocks that two prompts begin with together. Names are chained: where they agree, everything
// before agrees.
int64_t CommonBlocks(const std::vector<cache::BlockHash>& a,
                     const std::vector<cache::BlockHash>& b) {
  size_t low = 0, high = std::min(a.size(), b.size());
  while (low < high) {
    const size_t middle = (low + high + 1) / 2;
    if (a[middle - 1] == b[middle - 1]) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return static_cast<int64_t>(low);
}

}  // namespace

int64_t Scheduler::State::SaveInterval(const Sequence& s) const {
  const int64_t interval = options.checkpoint_interval_tokens;
  const int64_t share = std::max<int64_t>(1, options.checkpoints / kShareOfOnePrompt);
  return interval * (s.known / interval / share + 1);
}

// Nobody has saved it or is going to.
bool Scheduler::State::Worthwhile(const Sequence& s, int64_t position) const {
  const cache::BlockHash& hash = s.chain[static_cast<size_t>(position / cache::kBlockTokens - 1)];
  const int64_t kind = cache::CheckpointKind(position, s.request.decoder_from);
  if (SavePromised(hash, kind)) return false;
  const int32_t entry = cache.Find(hash);
  if (entry == kNone) return true;
  return kind == cache::kEncoderOnly ? cache.AnyCheckpoint(entry) == kNone
                                     : cache.FindCheckpoint(entry, kind) == kNone;
}

// The last place where one of those that wait goes on by itself.
int64_t Scheduler::State::Branch(const Sequence& s) const {
  int64_t last = 0;
  const size_t scan = std::min(waiting.size(), kBranchScan);
  for (size_t i = 0; i < scan; ++i) {
    if (!MayReuse(*waiting[i])) continue;
    const int64_t common = CommonBlocks(s.chain, waiting[i]->chain) * cache::kBlockTokens;
    last = std::max(last, std::min(common, BlockBoundary(waiting[i]->known_tokens() - 1)));
  }
  return last;
}

// The end of the prompt serves the same prompt again, the cut serves prompts that go on otherwise,
// the branch serves those that wait, the end of a hit that had to be replayed serves whoever shares
// it. These are promised; the rest follows by interval.
void Scheduler::State::ChooseSaves(Sequence* s, const Match& match) {
  if (options.checkpoints == 0) return;
  const int64_t from = std::max(s->start, match.start.exact_from);
  s->save_interval = SaveInterval(*s);
  s->next_save = base::RoundUp(from, cache::kBlockTokens) + s->save_interval;
  std::vector<int64_t> at = {BlockBoundary(s->prompt_tokens - 1),
                             BlockBoundary(s->request.decoder_from), Branch(*s)};
  if (s->start < match.start.write_from) at.push_back(match.start.write_from);
  std::sort(at.begin(), at.end(), std::greater<>());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  for (const int64_t p : at) {
    const bool ahead = p > s->start && p >= from && p <= s->known;
    if (!ahead || !Worthwhile(*s, p)) continue;
    s->saves.push_back(p);
    promised_saves.push_back({s->chain[static_cast<size_t>(p / cache::kBlockTokens - 1)],
                              cache::CheckpointKind(p, s->request.decoder_from), s});
  }
}

// Not shortly before one that is due anyway.
bool Scheduler::State::IntervalIsOver(const Sequence& s, int64_t position) const {
  if (s.save_interval == 0 || position < s.next_save) return false;
  return s.saves.empty() || s.saves.back() - position >= s.save_interval / 2;
}

// Where rows end that could go on to `end`. For an interval they give up less than a block: to end
// at its multiples would cut most steps in two.
int64_t Scheduler::State::ChunkEnd(const Sequence& s, int64_t end) const {
  if (!s.saves.empty()) end = std::min(end, s.saves.back());
  const int64_t boundary = BlockBoundary(end);
  const bool cut = end < s.known && boundary > s.planned && IntervalIsOver(s, boundary);
  return cut ? boundary : end;
}

// Rows that end where they are known to end are saved there. Drafts may end at every row from
// `planned` to their reach: the rank is told to stop at the block's end, and says whether it came
// so far; where it did not, the next plan tries again.
void Scheduler::State::SaveWhenDue(Sequence* s, PlannedRows* rows) {
  const int64_t at = rows->drafts ? BlockBoundary(s->reach()) : s->planned;
  if (at % cache::kBlockTokens != 0 || at < s->planned) return;
  const bool promised = !s->saves.empty() && s->saves.back() == at;
  if (promised) {
    s->saves.pop_back();
  } else if (!IntervalIsOver(*s, at)) {
    return;
  }
  if (!rows->drafts) s->next_save = at + s->save_interval;
  rows->save = cache.TakeCheckpoint();
  rows->save_at = at;
  rows->save_kind = cache::CheckpointKind(at, s->request.decoder_from);
  plan->rows.back().save_checkpoint = rows->save;
  if (rows->drafts && rows->save != kNone) plan->rows.back().save_at = at;
  if (promised && rows->save == kNone) WithdrawSave(s, at);
}

void Scheduler::State::WithdrawSave(const Sequence* s, int64_t position) {
  const auto block = static_cast<size_t>(position / cache::kBlockTokens - 1);
  if (block >= s->chain.size()) return;
  std::erase_if(promised_saves,
                [&](const PromisedSave& p) { return p.by == s && p.hash == s->chain[block]; });
}

// The plan has retired: the checkpoint can be found from now on, if its block can.
void Scheduler::State::SettleSave(const PlannedRows& rows, bool done) {
  if (rows.save == kNone) return;
  Sequence* s = rows.sequence;
  const int64_t blocks = rows.save_at / cache::kBlockTokens;
  if (done && s->published >= blocks) {
    s->next_save = std::max(s->next_save, rows.save_at + s->save_interval);
    const cache::BlockHash& hash = s->chain[static_cast<size_t>(blocks - 1)];
    cache.BindCheckpoint(rows.save, cache.Find(hash), rows.save_kind, s->decoder_floor);
  } else {
    cache.AbandonCheckpoint(rows.save);
  }
  WithdrawSave(s, rows.save_at);
}

}  // namespace thalweg::sched
