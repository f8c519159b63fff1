#include "sched/ranked.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "step/parts.h"

namespace thalweg::sched {
namespace {

// What a request brings is not known before its end: more than this is not expected of any.
constexpr int64_t kExpectedTokens = 512;

SchedulerStats Sum(SchedulerStats a, const SchedulerStats& b) {
  for (const auto field :
       {&SchedulerStats::waiting, &SchedulerStats::running, &SchedulerStats::held,
        &SchedulerStats::free_blocks, &SchedulerStats::cached_blocks, &SchedulerStats::used_blocks,
        &SchedulerStats::checkpoints_used})
    a.*field += b.*field;
  for (const auto field :
       {&SchedulerStats::prefill_rows, &SchedulerStats::decode_rows, &SchedulerStats::drafted,
        &SchedulerStats::accepted, &SchedulerStats::admitted, &SchedulerStats::preempted,
        &SchedulerStats::prompt_tokens, &SchedulerStats::hit_tokens,
        &SchedulerStats::replayed_tokens, &SchedulerStats::evicted_blocks,
        &SchedulerStats::miss_no_block, &SchedulerStats::miss_no_checkpoint,
        &SchedulerStats::miss_evicted})
    a.*field += b.*field;
  return a;
}

}  // namespace

RankedScheduler::RankedScheduler(const SchedulerOptions& options)
    : options_(options), work_(static_cast<size_t>(options.ranks)) {
  for (int64_t r = 0; r < options.ranks; ++r)
    ranks_.push_back(std::make_unique<Scheduler>(options));
}
RankedScheduler::~RankedScheduler() = default;

std::vector<cache::BlockHash> RankedScheduler::ChainOf(const Request& request) const {
  std::vector<cache::BlockHash> chain;
  if (!options_.prefix_reuse || !request.may_reuse || request.sampling.prompt_logprobs >= 0)
    return chain;
  cache::BlockHash parent = cache::RootHash(options_.cache_identity, request.salt);
  auto left = std::span<const int32_t>(request.prompt);
  // The last token has to run.
  for (; static_cast<int64_t>(left.size()) > cache::kBlockTokens;
       left = left.subspan(cache::kBlockTokens)) {
    parent = cache::ChainHash(parent, left.first(cache::kBlockTokens));
    chain.push_back(parent);
  }
  return chain;
}

// The rank on which it ends first, as far as rows tell; the lowest of equals. *prompt: rows there
// until its first token.
size_t RankedScheduler::Choose(const Request& request, int64_t* prompt) const {
  const auto tokens = static_cast<int64_t>(request.prompt.size());
  const std::vector<cache::BlockHash> chain = ChainOf(request);
  const auto rows = [&](size_t rank) {
    return tokens - ranks_[rank]->CachedBlocks(chain) * cache::kBlockTokens;
  };
  const bool bound = options_.local_only_on_first &&
                     (request.sampling.constrained || !request.sampling.logits_processor.empty());
  size_t best = 0;
  *prompt = rows(0);
  for (size_t r = 1; r < ranks_.size() && !bound; ++r) {
    const int64_t own = rows(r);
    if (work_[r] + own >= work_[best] + *prompt) continue;
    best = r;
    *prompt = own;
  }
  return best;
}

Status RankedScheduler::Submit(Request request) {
  if (ranks() == 1) return ranks_.front()->Submit(std::move(request));
  const uint64_t sequence = request.sequence;
  if (placed_.contains(sequence))
    return base::InvalidArgument(fmt::format("sequence {} is already there", sequence));
  Placed placed{.tokens = std::min(request.max_tokens, kExpectedTokens)};
  placed.rank = Choose(request, &placed.prompt);
  TW_TRY(ranks_[placed.rank]->Submit(std::move(request)));
  AddWork(sequence, placed);
  return {};
}

void RankedScheduler::AddWork(uint64_t sequence, Placed placed) {
  work_[placed.rank] += placed.prompt + placed.tokens;
  placed_.emplace(sequence, placed);
}

void RankedScheduler::Stop(uint64_t sequence, Finish reason) {
  if (ranks() == 1) return ranks_.front()->Stop(sequence, reason);
  const auto found = placed_.find(sequence);
  if (found != placed_.end()) ranks_[found->second.rank]->Stop(sequence, reason);
}

// What came is no work any more.
void RankedScheduler::Heed(const std::vector<Event>& events, size_t begin) {
  for (size_t i = begin; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.kind == Event::Kind::kFinished) Finished(event.sequence);
    if (event.kind != Event::Kind::kToken) continue;
    Placed& placed = placed_.at(event.sequence);
    int64_t& work = work_[placed.rank];
    work -= std::exchange(placed.prompt, 0);
    if (placed.tokens <= 1) continue;  // as long as it runs something is to come
    --placed.tokens;
    --work;
  }
}

void RankedScheduler::Finished(uint64_t sequence) {
  const auto found = placed_.find(sequence);
  TW_CHECK(found != placed_.end());
  work_[found->second.rank] -= found->second.prompt + found->second.tokens;
  placed_.erase(found);
}

bool RankedScheduler::NextPlan(step::StepPlan* plan) {
  if (ranks() == 1) return ranks_.front()->NextPlan(plan);
  plan->Clear();
  std::vector<Part> parts;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    part_.Clear();
    if (!ranks_[r]->NextPlan(&part_)) continue;
    parts.push_back({r, {part_.number, plan->rows.size(), part_.rows.size()}});
    step::AppendPart(&part_, static_cast<int32_t>(static_cast<int64_t>(r) * options_.max_sequences),
                     plan);
  }
  if (parts.empty()) return false;
  plan->number = ++number_;
  flight_.push_back(std::move(parts));
  return true;
}

void RankedScheduler::Advance(const step::StepResult& result, std::vector<Event>* events) {
  if (ranks() == 1) return ranks_.front()->Advance(result, events);
  TW_CHECK(!flight_.empty());
  const size_t begin = events->size();
  for (const Part& part : flight_.front()) ranks_[part.rank]->Advance(result, part.entries, events);
  flight_.pop_front();
  Heed(*events, begin);
}

void RankedScheduler::TakeEvents(std::vector<Event>* events) {
  const size_t begin = events->size();
  for (const auto& rank : ranks_) rank->TakeEvents(events);
  if (ranks() > 1) Heed(*events, begin);
}

bool RankedScheduler::idle() const {
  return flight_.empty() &&
         std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->idle(); });
}

SchedulerStats RankedScheduler::stats() const {
  SchedulerStats sum = ranks_.front()->stats();
  for (size_t r = 1; r < ranks_.size(); ++r) sum = Sum(sum, ranks_[r]->stats());
  if (ranks() > 1) sum.plans = number_;
  return sum;
}

Status RankedScheduler::Audit() const {
  for (const auto& rank : ranks_) TW_TRY(rank->Audit());
  return {};
}

void RankedScheduler::DropCache() {
  for (const auto& rank : ranks_) rank->DropCache();
}

}  // namespace thalweg::sched
