#include "engine/sequence_masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace thalweg::engine {
namespace {

uint64_t Nanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// Text that no grammar binds yet; an end in it would be an answer without its constraint.
std::shared_ptr<const grammar::Mask> AllButEnds(const grammar::Vocabulary& vocabulary) {
  auto mask = std::make_shared<grammar::Mask>(static_cast<size_t>(vocabulary.mask_words()), ~0u);
  if (vocabulary.size() % 32 != 0) mask->back() = (1u << (vocabulary.size() % 32)) - 1;
  for (const int32_t t : vocabulary.end_tokens())
    (*mask)[static_cast<size_t>(t) / 32] &= ~(1u << (t % 32));
  return mask;
}

}  // namespace

SequenceMasks::SequenceMasks(GrammarRef grammar, int32_t starts_after, Shared shared)
    : grammar_(std::move(grammar)),
      starts_after_(starts_after),
      shared_(shared),
      matcher_(grammar_),
      started_(starts_after < 0),
      next_(exec::NextTokens{}),
      spelling_(shared_.forced->Usual()) {}

void SequenceMasks::Prepare() {
  if (!started_) {
    next_ = exec::NextTokens{.mask = AllButEnds(grammar_->vocabulary())};
    return;
  }
  phase_ = Phase::kQueued;
  shared_.workers->Post(shared_from_this());
}

Status SequenceMasks::Take(int32_t token) {
  ++taken_;
  if (!started_) {
    started_ = token == starts_after_;
    return {};
  }
  TW_ASSIGN(const bool allowed, matcher_.Accept(token));
  if (allowed) return {};
  return base::Internal(fmt::format("token {} came though so_args does not allow it", token));
}

Result<exec::NextTokens> SequenceMasks::NextOfGrammar() {
  if (matcher_.ended()) return base::Internal("a mask behind the end of a constrained sequence");
  exec::NextTokens next;
  TW_ASSIGN(next.mask, matcher_.NextMask());
  next.complete = matcher_.must_end();
  shared_.times->masks.fetch_add(1, std::memory_order_relaxed);
  return next;
}

// Once failed, it stays so.
void SequenceMasks::TakeDrawn() {
  forced_.clear();
  for (const int32_t token : std::exchange(drawn_, {})) {
    if (!next_.ok()) return;
    if (const Status taken = Take(token); !taken.ok()) next_ = taken;
  }
  if (!next_.ok() || !started_ || !shared_.forced->offers()) return;
  auto forced = shared_.forced->Behind(&matcher_);
  if (forced.ok()) forced_ = std::move(*forced);  // where it fails, so does the mask
}

void SequenceMasks::Make() {
  if (next_.ok() && started_) next_ = NextOfGrammar();
}

// What is to be done next, without the lock; false: nothing, or another thread is at it.
bool SequenceMasks::Advance(std::unique_lock<std::mutex>* lock) {
  if (phase_ != Phase::kQueued && phase_ != Phase::kTaken) return false;
  const bool take = phase_ == Phase::kQueued;
  phase_ = take ? Phase::kTaking : Phase::kMaking;
  lock->unlock();
  const uint64_t begin = Nanoseconds();
  take ? TakeDrawn() : Make();
  shared_.times->make_ns.fetch_add(Nanoseconds() - begin, std::memory_order_relaxed);
  lock->lock();
  phase_ = take ? Phase::kTaken : Phase::kReady;
  ready_.notify_all();
  return true;
}

void SequenceMasks::Work() {
  std::unique_lock lock(mutex_);
  while (Advance(&lock)) {
  }
}

// The tokens alone are waited for; a worker that found them being taken is told again of the mask.
std::vector<exec::ForcedDraft> SequenceMasks::Forced(int64_t most) {
  std::vector<exec::ForcedDraft> drafts;
  std::unique_lock lock(mutex_);
  while (phase_ == Phase::kQueued || phase_ == Phase::kTaking) {
    if (!Advance(&lock)) ready_.wait(lock);
  }
  offered_ = std::min(forced_.size(), static_cast<size_t>(std::max<int64_t>(most, 0)));
  double survival = 1;
  for (size_t i = 0; i < offered_; ++i)
    drafts.push_back({forced_[i].token, survival *= spelling_.Of(forced_[i].spelling)});
  const bool post = phase_ == Phase::kTaken;
  lock.unlock();
  if (post) shared_.workers->Post(shared_from_this());
  return drafts;
}

Result<exec::NextTokens> SequenceMasks::Wait() {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kReady) return next_;
  const uint64_t begin = Nanoseconds();
  while (phase_ != Phase::kReady) {
    if (!Advance(&lock)) ready_.wait(lock);
  }
  shared_.times->wait_ns.fetch_add(Nanoseconds() - begin, std::memory_order_relaxed);
  return next_;
}

// The matcher goes along and comes back.
Status SequenceMasks::FollowDrafts(std::span<const int32_t> drafts,
                                   std::vector<exec::NextTokens>* masks) {
  bool started = started_;
  for (const int32_t draft : drafts) {
    if (started) {
      TW_ASSIGN(const bool allowed, matcher_.Accept(draft));
      if (!allowed || matcher_.ended()) return {};
    }
    if (!started && draft != starts_after_) {
      masks->push_back(masks->back());
      continue;
    }
    started = true;
    TW_ASSIGN(exec::NextTokens next, NextOfGrammar());
    masks->push_back(std::move(next));
  }
  return {};
}

Result<std::vector<exec::NextTokens>> SequenceMasks::WaitAlong(std::span<const int32_t> drafts) {
  std::vector<exec::NextTokens> masks(1);
  TW_ASSIGN(masks.front(), Wait());
  const std::scoped_lock lock(mutex_);  // ready: nobody else is at the matcher
  const int64_t before = matcher_.accepted();
  const Status status = FollowDrafts(drafts, &masks);
  matcher_.Rollback(matcher_.accepted() - before);
  TW_TRY(status);
  return masks;
}

// Before the grammar begins nothing changes, and that costs no thread.
void SequenceMasks::Accept(std::span<const int32_t> tokens) {
  {
    const std::scoped_lock lock(mutex_);
    TW_CHECK(phase_ == Phase::kReady);
    if (!forced_.empty()) shared_.forced->Observe(forced_, offered_, tokens, &spelling_);
    forced_.clear();
    offered_ = 0;
    size_t free = 0;
    while (!started_ && free < tokens.size() && tokens[free] != starts_after_) ++free;
    taken_ += static_cast<int64_t>(free);
    drawn_.assign(tokens.begin() + static_cast<std::ptrdiff_t>(free), tokens.end());
    if (drawn_.empty()) return;
    phase_ = Phase::kQueued;
  }
  shared_.workers->Post(shared_from_this());
}

// The matcher is where the sequence was when it lost its slot: the scheduler waits for every token
// that was drawn. At the very beginning there is nothing to check, and nothing to wait for.
Status SequenceMasks::Begin(std::span<const int32_t> output) {
  if (output.empty()) return {};
  TW_TRY(Wait().status());
  const std::scoped_lock lock(mutex_);
  if (taken_ == static_cast<int64_t>(output.size())) return {};
  return base::Internal(fmt::format(
      "a constrained sequence begins behind {} tokens, but {} were drawn", output.size(), taken_));
}

}  // namespace thalweg::engine
