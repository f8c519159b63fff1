// What the items of a row predict.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "grammar/earley_item.h"
#include "grammar/earley_program.h"

namespace thalweg::grammar {

// Where alternatives return to.
struct Address {
  int32_t origin;
  int32_t rule;
  bool operator==(const Address&) const = default;
};

// A rule that may begin here. Where nothing follows the rule in any of its callers, its
// alternatives return to where the callers would (a tail call): so right recursion does not grow
// (Leo 1991), and chains of rules that only name one another are not climbed one by one.
struct Reached {
  static constexpr size_t kMostAddresses = 4;
  int32_t rule = 0;
  bool waits = false;  // its alternatives return to {kSelf, rule}
  uint64_t from = 0;   // bit i: reached from the i-th item that is before a rule; bit 63: and up
  bool many = false;   // more addresses than are kept
  uint32_t addresses = 0;
  std::array<Address, kMostAddresses> address = {};

  std::span<const Address> Addresses() const { return std::span(address).first(addresses); }
};

// Scratch memory that is used again for each row.
class Predictor {
 public:
  static constexpr int kLastBit = 63;

  explicit Predictor(const Program& program);

  // `items`: those of a row.
  void Run(std::span<const Item> items);
  std::span<const Reached> reached() const { return reached_; }
  // Null: not reached.
  const Reached* Of(int32_t rule) const;

 private:
  Reached& At(int32_t rule) { return reached_[static_cast<size_t>(Index(rule))]; }
  int32_t Index(int32_t rule) const { return index_[static_cast<size_t>(rule)]; }
  void Reach(int32_t rule, uint64_t from, bool tail);
  void Return(int32_t rule, const Address& address);
  void Push(int32_t rule);
  void FindRules(std::span<const Item> items);
  void FindAddresses(std::span<const Item> items);
  void PassOn(const Reached& from);
  void HaveMany(int32_t rule);

  const Program& program_;
  std::vector<Reached> reached_;
  std::vector<int32_t> index_;    // of reached_, by rule; -1: not reached
  std::vector<int32_t> waiting_;  // rules to look at again
  std::vector<bool> is_waiting_;
};

}  // namespace thalweg::grammar
