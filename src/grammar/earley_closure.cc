// What rows predict, what waits in them, and how items move on.
#include <algorithm>
#include <utility>

#include "grammar/earley_rows.h"

namespace thalweg::grammar {

void Rows::Begin() {
  items_.clear();
  seen_.Clear();
  accepts_ = false;
}

// The item's regex has taken a byte.
void Rows::Step(Item item) {
  const Terminal* terminal = terminals_.Of(item.expression);
  if (terminal == nullptr) {
    Fail(terminals_.failure());
    return;
  }
  if (!terminal->live.empty()) items_.push_back(item);
  if (terminal->nullable) Advance({item.position + 1, kNothing, item.origin, item.rule});
}

// The dot comes to item.position: items that follow without a byte are added, too. Alternatives
// that end move on what waits for them.
void Rows::Advance(Item item) {
  todo_.push_back(item);
  while (!todo_.empty()) {
    Item next = todo_.back();
    todo_.pop_back();
    const Position& position = program_.at(next.position);
    const bool end = position.kind == Position::Kind::kEnd;
    if (end) next.position = -1;  // which alternative ends does not matter
    if (!seen_.Insert(next)) continue;
    if (!end) {
      if (position.kind == Position::Kind::kRegex) next.expression = position.id;
      if (next.expression != kEmptyString) items_.push_back(next);
      if (position.nullable) todo_.push_back({next.position + 1, kNothing, next.origin, next.rule});
    } else if (next.origin == kTop) {
      accepts_ = true;
    } else {
      for (const Waiting& waiting : WaitingFor(next.origin, next.rule)) {
        todo_.push_back(waiting.item);
      }
    }
  }
}

int32_t Rows::Finish() {
  if (!failure_.ok()) return kFailed;
  if (items_.empty() && !accepts_) return kDead;
  if (!std::is_sorted(items_.begin(), items_.end())) std::sort(items_.begin(), items_.end());
  items_.erase(std::unique(items_.begin(), items_.end()), items_.end());
  return Intern(items_, accepts_);
}

// The row of the items that the rule is reached from: whatever else is in this row does not matter
// for what comes after the rule, and would tell apart situations that are equal.
int32_t Rows::OriginOf(std::span<const Item> items, const Reached& reached) {
  subset_.clear();
  int bit = 0;
  for (const Item& item : items) {
    if (program_.at(item.position).kind != Position::Kind::kRule) continue;
    if ((reached.from >> bit & 1) != 0) subset_.push_back(item);
    bit = std::min(bit + 1, Predictor::kLastBit);
  }
  return Intern(subset_, false);
}

const Rows::Closure* Rows::ClosureOf(int32_t row) {
  if (At(row).closure != nullptr) return At(row).closure;
  auto* closure = new (pool_->Allocate(sizeof(Closure))) Closure;
  MakeClosure(row, closure);
  if (!failure_.ok()) return nullptr;
  return At(row).closure = closure;
}

void Rows::MakeClosure(int32_t row, Closure* closure) {
  const std::span<const Item> items = At(row).items;
  found_.clear();
  found_tokens_.clear();
  bool predicts = false;
  for (const Item& item : items) {
    switch (program_.at(item.position).kind) {
      case Position::Kind::kRegex: found_.push_back(item); break;
      case Position::Kind::kToken: found_tokens_.push_back(item); break;
      default: predicts = true;
    }
  }
  if (predicts) Predict(items);
  const bool all = !predicts && found_tokens_.empty();
  closure->terminals = all ? items : pool_->Copy<Item>(found_);
  closure->tokens = pool_->Copy<Item>(found_tokens_);
  automata_.clear();
  for (const Item& item : found_) {
    const Terminal* terminal = terminals_.Of(item.expression);
    if (terminal == nullptr) return static_cast<void>(Fail(terminals_.failure()));
    closure->live = closure->live | terminal->live;
    automata_.push_back(terminal);
  }
  closure->automata = pool_->Copy<const Terminal*>(automata_);
}

void Rows::Predict(std::span<const Item> items) {
  predictor_.Run(items);
  for (const Reached& reached : predictor_.reached()) {
    const std::span<const int32_t> terminals = program_.TerminalsOf(reached.rule);
    if (terminals.empty()) continue;
    for (const Address& address : reached.Addresses()) {
      const int32_t origin = Resolve(items, address);
      if (origin == kFailed) return;
      for (const int32_t position : terminals) Emit(position, {origin, address.rule});
    }
  }
}

int32_t Rows::Resolve(std::span<const Item> items, const Address& address) {
  return address.origin == kSelf ? OriginOf(items, *predictor_.Of(address.rule)) : address.origin;
}

void Rows::Emit(int32_t position, const Address& address) {
  const Position& at = program_.at(position);
  if (at.kind == Position::Kind::kToken) {
    found_tokens_.push_back({position, kNothing, address.origin, address.rule});
  } else if (at.id != kEmptyString) {
    found_.push_back({position, at.id, address.origin, address.rule});
  }
}

// What waits for the rule in the row.
Rows::WaitingList Rows::WaitingFor(int32_t row, int32_t rule) {
  if (At(row).waiting == nullptr) {
    auto* waiting = new (pool_->Allocate(sizeof(WaitingList))) WaitingList;
    *waiting = MakeWaiting(At(row).items);
    if (!failure_.ok()) return {};
    At(row).waiting = waiting;
  }
  const auto by_rule = [](const Waiting& waiting) { return waiting.rule; };
  const auto found = std::ranges::equal_range(*At(row).waiting, rule, {}, by_rule);
  return {found.begin(), found.end()};
}

Rows::WaitingList Rows::MakeWaiting(std::span<const Item> items) {
  predictor_.Run(items);
  found_waiting_.clear();
  for (const Item& item : items) {
    const Position& position = program_.at(item.position);
    if (position.kind != Position::Kind::kRule || !predictor_.Of(position.id)->waits) continue;
    found_waiting_.push_back({position.id, {item.position + 1, kNothing, item.origin, item.rule}});
  }
  for (const Reached& reached : predictor_.reached()) AddCalls(items, reached);
  std::sort(found_waiting_.begin(), found_waiting_.end());
  return pool_->Copy<Waiting>(found_waiting_);
}

void Rows::AddCalls(std::span<const Item> items, const Reached& reached) {
  for (const Program::Call& call : program_.CallsOf(reached.rule)) {
    if (!predictor_.Of(call.rule)->waits) continue;
    for (const Address& address : reached.Addresses()) {
      const int32_t origin = Resolve(items, address);
      if (origin == kFailed) return;
      found_waiting_.push_back({call.rule, {call.position + 1, kNothing, origin, address.rule}});
    }
  }
}

}  // namespace thalweg::grammar
