#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "grammar/automaton.h"

namespace thalweg::grammar {
namespace {

// In place of a state: an end token has been accepted.
constexpr int32_t kEnded = -100;

}  // namespace

Grammar::Grammar(std::unique_ptr<Automaton> automaton) : automaton_(std::move(automaton)) {}
Grammar::~Grammar() = default;

Result<std::shared_ptr<Grammar>> Grammar::Create(Rules rules,
                                                 std::shared_ptr<const Vocabulary> vocabulary,
                                                 const Limits& limits) {
  TW_ASSIGN(auto automaton, Automaton::Make(std::move(rules), std::move(vocabulary), limits));
  return std::shared_ptr<Grammar>(new Grammar(std::move(automaton)));
}

const Vocabulary& Grammar::vocabulary() const { return automaton_->vocabulary(); }
int64_t Grammar::bytes() const { return automaton_->bytes(); }

Matcher::Matcher(std::shared_ptr<Grammar> grammar)
    : grammar_(std::move(grammar)), states_({automaton().start()}) {
  automaton().Pin(states_);
}

Matcher::Matcher(const Matcher& other) : grammar_(other.grammar_), states_(other.states_) {
  if (grammar_ != nullptr) automaton().Pin(states_);
}

Matcher& Matcher::operator=(Matcher other) noexcept {
  std::swap(grammar_, other.grammar_);
  std::swap(states_, other.states_);
  return *this;
}

Matcher::~Matcher() {
  if (grammar_ != nullptr) automaton().Unpin(states_);
}

int64_t Matcher::accepted() const { return static_cast<int64_t>(states_.size()) - 1; }
bool Matcher::ended() const { return states_.back() == kEnded; }
bool Matcher::can_end() const { return ended() || automaton().Accepts(states_.back()); }

bool Matcher::must_end() const {
  if (ended()) return true;
  if (!can_end()) return false;
  const Result<bool> more = automaton().CanGoOn(states_.back());
  return more.ok() && !*more;
}

Result<std::shared_ptr<const Mask>> Matcher::NextMask() {
  if (!ended()) return automaton().MaskOf(states_.back());
  return std::make_shared<const Mask>(static_cast<size_t>(grammar_->vocabulary().mask_words()));
}

Result<bool> Matcher::Accept(int32_t token) {
  if (ended()) return false;
  int32_t after = kEnded;
  if (!automaton().IsEnd(token) || !can_end()) {
    TW_ASSIGN(after, automaton().Step(states_.back(), token));
    if (after < 0) return false;
  }
  states_.push_back(after);
  return true;
}

Result<int64_t> Matcher::CountAccepted(std::span<const int32_t> tokens) {
  if (ended()) return 0;
  TW_ASSIGN(const auto steps, automaton().TryAll(states_.back(), tokens));
  const bool ends = steps.can_end && steps.taken < static_cast<int64_t>(tokens.size()) &&
                    automaton().IsEnd(tokens[static_cast<size_t>(steps.taken)]);
  return steps.taken + (ends ? 1 : 0);
}

void Matcher::Rollback(int64_t tokens) {
  TW_CHECK_GE(tokens, 0);
  const int64_t count = std::min(tokens, accepted());
  const auto keep = static_cast<size_t>(accepted() - count + 1);
  automaton().Unpin(std::span<const int32_t>(states_).subspan(keep));
  states_.resize(keep);
}

Result<std::string> Matcher::ForcedBytes(int64_t most) {
  if (ended()) return std::string();
  return automaton().ForcedBytes(states_.back(), most);
}

Result<int32_t> Matcher::ForcedToken() {
  if (ended()) return -1;
  return automaton().ForcedToken(states_.back());
}

}  // namespace thalweg::grammar
