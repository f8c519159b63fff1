#include "grammar/earley_predict.h"

#include <algorithm>

namespace thalweg::grammar {

Predictor::Predictor(const Program& program)
    : program_(program),
      index_(static_cast<size_t>(program.rule_count()), -1),
      is_waiting_(static_cast<size_t>(program.rule_count())) {}

const Reached* Predictor::Of(int32_t rule) const {
  return Index(rule) < 0 ? nullptr : &reached_[static_cast<size_t>(Index(rule))];
}

void Predictor::Run(std::span<const Item> items) {
  for (const Reached& reached : reached_) index_[static_cast<size_t>(reached.rule)] = -1;
  reached_.clear();
  FindRules(items);
  FindAddresses(items);
}

void Predictor::Push(int32_t rule) {
  if (is_waiting_[static_cast<size_t>(rule)]) return;
  is_waiting_[static_cast<size_t>(rule)] = true;
  waiting_.push_back(rule);
}

void Predictor::Reach(int32_t rule, uint64_t from, bool tail) {
  if (Index(rule) < 0) {
    index_[static_cast<size_t>(rule)] = static_cast<int32_t>(reached_.size());
    reached_.push_back({.rule = rule});
  }
  Reached& reached = At(rule);
  if (!tail) reached.waits = true;
  if ((reached.from | from) == reached.from) return;
  reached.from |= from;
  Push(rule);
}

// All rules that can begin here, from which items, and whether something follows them.
void Predictor::FindRules(std::span<const Item> items) {
  int bit = 0;
  for (const Item& item : items) {
    const Position& position = program_.at(item.position);
    if (position.kind != Position::Kind::kRule) continue;
    const bool tail = program_.at(item.position + 1).kind == Position::Kind::kEnd;
    Reach(position.id, uint64_t{1} << bit, tail);
    bit = std::min(bit + 1, kLastBit);
  }
  while (!waiting_.empty()) {
    const int32_t rule = waiting_.back();
    waiting_.pop_back();
    is_waiting_[static_cast<size_t>(rule)] = false;
    const uint64_t from = At(rule).from;
    for (const Program::Call& call : program_.CallsOf(rule)) Reach(call.rule, from, call.tail);
  }
}

void Predictor::HaveMany(int32_t rule) {
  Reached& reached = At(rule);
  if (reached.waits || reached.many) return;
  reached.many = true;
  Push(rule);
}

void Predictor::Return(int32_t rule, const Address& address) {
  Reached& reached = At(rule);
  if (reached.waits || reached.many) return;
  const auto known = reached.Addresses();
  if (std::find(known.begin(), known.end(), address) != known.end()) return;
  if (reached.addresses == Reached::kMostAddresses) return HaveMany(rule);
  reached.address[reached.addresses++] = address;
  Push(rule);
}

void Predictor::PassOn(const Reached& from) {
  for (const Program::Call& call : program_.CallsOf(from.rule)) {
    if (!call.tail) continue;
    if (from.many) HaveMany(call.rule);
    for (const Address& address : from.Addresses()) Return(call.rule, address);
  }
}

// Rules with many addresses wait like the others. Which ones do must not depend on the order in
// which addresses come: a row made of some of these items has to find the same.
void Predictor::FindAddresses(std::span<const Item> items) {
  for (Reached& reached : reached_) {
    if (!reached.waits) continue;
    reached.addresses = 1;
    reached.address[0] = {kSelf, reached.rule};
    Push(reached.rule);
  }
  for (const Item& item : items) {
    const Position& position = program_.at(item.position);
    if (position.kind == Position::Kind::kRule) Return(position.id, {item.origin, item.rule});
  }
  while (!waiting_.empty()) {
    const int32_t rule = waiting_.back();
    waiting_.pop_back();
    is_waiting_[static_cast<size_t>(rule)] = false;
    PassOn(Reached(At(rule)));
  }
  for (Reached& reached : reached_) {
    if (!reached.many) continue;
    reached.waits = true;
    reached.addresses = 1;
    reached.address[0] = {kSelf, reached.rule};
  }
}

}  // namespace thalweg::grammar
