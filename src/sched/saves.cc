// Which checkpoints a sequence leaves behind: where other prompts are likely to go on from.
#include <algorithm>

#include "base/check.h"
#include "sched/state.h"

namespace thalweg::sched {
namespace {

// Waiting requests whose branch from a prompt is foreseen.
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

bool Scheduler::State::Worthwhile(const Sequence& s, int64_t position, int64_t exact_from) const {
  if (position <= s.start || position < exact_from || position > s.known) return false;
  const cache::BlockHash& hash = s.chain[static_cast<size_t>(position / cache::kBlockTokens - 1)];
  const int64_t kind = cache::CheckpointKind(position, s.request.decoder_from);
  if (SavePromised(hash, kind)) return false;
  const int32_t entry = cache.Find(hash);
  if (entry == kNone) return true;
  return kind == cache::kEncoderOnly ? cache.AnyCheckpoint(entry) == kNone
                                     : cache.FindCheckpoint(entry, kind) == kNone;
}

// Where those that wait will go on by themselves.
void Scheduler::State::AddBranches(const Sequence& s, std::vector<int64_t>* at) const {
  const size_t scan = std::min(waiting.size(), kBranchScan);
  for (size_t i = 0; i < scan; ++i) {
    if (!MayReuse(*waiting[i])) continue;
    const int64_t branch = CommonBlocks(s.chain, waiting[i]->chain) * cache::kBlockTokens;
    at->push_back(std::min(branch, BlockBoundary(waiting[i]->known_tokens() - 1)));
  }
}

// The end of the prompt serves the same prompt again, the cut serves prompts that go on otherwise,
// branches serve those that wait, the end of a hit that had to be replayed serves whoever shares
// it; multiples of the interval serve the rest, and keep away from the others: a cut costs a step.
void Scheduler::State::ChooseSaves(Sequence* s, const Match& match) {
  s->saves.clear();
  if (options.checkpoints == 0) return;
  std::vector<int64_t> at = {BlockBoundary(s->prompt_tokens - 1),
                             BlockBoundary(s->request.decoder_from)};
  if (s->start < match.start.write_from) at.push_back(match.start.write_from);
  AddBranches(*s, &at);
  const int64_t interval = SaveInterval(*s);
  const std::vector<int64_t> fixed = at;
  for (int64_t p = interval; p <= s->known; p += interval) {
    const bool near = std::any_of(fixed.begin(), fixed.end(),
                                  [&](int64_t f) { return std::abs(f - p) < interval / 2; });
    if (!near) at.push_back(p);
  }
  std::sort(at.begin(), at.end(), std::greater<>());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  for (const int64_t p : at) {
    if (!Worthwhile(*s, p, match.start.exact_from)) continue;
    const int64_t kind = cache::CheckpointKind(p, s->request.decoder_from);
    s->saves.push_back({p, kind});
    promised_saves.push_back({s->chain[static_cast<size_t>(p / cache::kBlockTokens - 1)], kind, s});
  }
}

// The rows end where the next save is due. Without a free slot nothing is saved, nor promised.
void Scheduler::State::AttachSave(Sequence* s, PlannedRows* rows) {
  const Save save = s->saves.back();
  s->saves.pop_back();
  const int32_t slot = cache.TakeCheckpoint();
  if (slot != kNone) {
    rows->save = slot;
    rows->save_kind = save.kind;
    plan->rows.back().save_checkpoint = slot;
    return;
  }
  const auto block = static_cast<size_t>(save.position / cache::kBlockTokens - 1);
  std::erase_if(promised_saves, [&](const PromisedSave& p) {
    return p.by == s && block < s->chain.size() && p.hash == s->chain[block];
  });
}

// The plan has retired: the checkpoint can be found from now on, if its block can.
void Scheduler::State::SettleSave(const PlannedRows& rows, bool done) {
  if (rows.save == kNone) return;
  const Sequence* s = rows.sequence;
  const int64_t blocks = rows.end / cache::kBlockTokens;
  const auto block = static_cast<size_t>(blocks - 1);
  if (done && s->published >= blocks) {
    cache.BindCheckpoint(rows.save, cache.Find(s->chain[block]), rows.save_kind);
    ++cache_epoch;
  } else {
    cache.AbandonCheckpoint(rows.save);
  }
  if (block >= s->chain.size()) return;
  std::erase_if(promised_saves,
                [&](const PromisedSave& p) { return p.by == s && p.hash == s->chain[block]; });
}

}  // namespace thalweg::sched
