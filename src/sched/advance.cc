// What came back: tokens, ends, failures; names for blocks that are complete.
#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "sched/state.h"

namespace thalweg::sched {
namespace {

constexpr int64_t kForgetting = 8;  // results in which most of what ran lately is forgotten

}  // namespace

void Scheduler::State::Advance(const step::StepResult& result, const ResultPart& part,
                               std::vector<Event>* events) {
  TW_CHECK_GT(flight_count, 0u);
  const PlanInFlight& oldest = flight[flight_begin];
  TW_CHECK_EQ(part.number, oldest.number);
  if (result.status.ok()) TW_CHECK_EQ(part.count, oldest.rows.size());
  const uint64_t drafted = counters.drafted;
  for (size_t i = 0; i < oldest.rows.size(); ++i) Retire(oldest.rows[i], result, part.first + i);
  drafted_lately = std::max(static_cast<int64_t>(counters.drafted - drafted),
                            drafted_lately - base::CeilDiv<int64_t>(drafted_lately, kForgetting));
  flight_begin = (flight_begin + 1) % flight.size();
  --flight_count;
  for (Event& event : pending_events) events->push_back(std::move(event));
  pending_events.clear();
}

void Scheduler::State::Retire(const PlannedRows& rows, const step::StepResult& result,
                              size_t index) {
  Sequence* s = rows.sequence;
  const step::SequenceResult* own = result.status.ok() ? &result.sequences[index] : nullptr;
  const Status& status = own != nullptr ? own->status : result.status;
  if (own != nullptr) TW_CHECK_EQ(own->sequence, s->request.sequence);
  s->broken |= !status.ok();
  if (!s->broken) {
    Keep(s, rows, rows.drafts ? own->tokens_count : rows.count);
    if (rows.sample) TakeTokens(s, result, *own);
    if (options.prefix_reuse) Publish(s);
  }
  s->ahead -= rows.count;
  SettleSave(rows, !s->broken && own->saved);
  if (rows.restore != kNone) cache.UnpinCheckpoint(rows.restore);
  if (!status.ok() && s->phase != Phase::kEnded) End(s, Finish::kError, status);
  // Last: whatever ended above lets go of its blocks here and not before.
  --s->plans_in_flight;
  if (s->phase != Phase::kRunning) ReleaseWhenIdle(s);
}

// Of the rows that were planned `count` are part of the text.
void Scheduler::State::Keep(Sequence* s, const PlannedRows& rows, int64_t count) {
  TW_CHECK_LE(count, rows.count);
  s->retired += count;
  if (rows.drafts) s->planned += count - 1;
}

// Rows [0, retired) are computed; blocks among them whose tokens are known get their names.
void Scheduler::State::Publish(Sequence* s) {
  const int64_t complete = std::min(s->retired, s->known_tokens()) / cache::kBlockTokens;
  if (complete <= s->published) return;
  ExtendChain(s, complete);
  for (int64_t b = s->published; b < complete; ++b) {
    const auto at = static_cast<size_t>(b);
    if (b < s->promised_end) KeepPromise(s, b);
    s->tail_entry = cache.Publish(s->blocks[at], s->chain[at], s->tail_entry);
  }
  s->published = complete;
}

void Scheduler::State::TakeTokens(Sequence* s, const step::StepResult& result,
                                  const step::SequenceResult& own) {
  if (s->phase == Phase::kEnded) return;
  TW_CHECK(own.tokens_count > 0 || own.fulfilled);
  counters.drafted += static_cast<uint64_t>(own.drafted);
  counters.accepted += static_cast<uint64_t>(std::max(0, own.tokens_count - 1));
  for (const step::SampledToken& token : result.TokensOf(own)) {
    if (s->phase == Phase::kEnded) return;
    TakeToken(s, token);
  }
  if (own.fulfilled && s->phase != Phase::kEnded) End(s, Finish::kEndToken);
}

void Scheduler::State::TakeToken(Sequence* s, const step::SampledToken& token) {
  s->tokens.push_back(token.token);
  s->spared = false;
  pending_events.push_back(
      {.kind = Event::Kind::kToken, .sequence = s->request.sequence, .token = &token});
  if (token.end != step::TokenEnd::kNone) {
    const bool stop = token.end == step::TokenEnd::kStopToken;
    End(s, stop ? Finish::kStopToken : Finish::kEndToken);
  } else if (s->known_tokens() == s->end_tokens) {
    const bool by_context = s->end_tokens < s->prompt_tokens + s->request.max_tokens;
    End(s, by_context ? Finish::kContext : Finish::kLength);
  }
}

}  // namespace thalweg::sched
