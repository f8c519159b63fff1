// Finite automata as expressions: each state is a node whose derivatives are looked up.
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "grammar/regex_arena.h"
#include "grammar/regex_nodes.h"

namespace thalweg::grammar {
namespace {

// Whether a state that accepts can be reached, for each state.
std::vector<bool> LiveStates(const RegexArena::Automaton& automaton) {
  const size_t classes = static_cast<size_t>(automaton.classes.count);
  const size_t states = automaton.accepting.size();
  std::vector<std::vector<int32_t>> before(states);
  for (size_t state = 0; state < states; ++state) {
    for (size_t c = 0; c < classes; ++c) {
      const int32_t next = automaton.next[state * classes + c];
      if (next >= 0) before[static_cast<size_t>(next)].push_back(static_cast<int32_t>(state));
    }
  }
  std::vector<bool> live(states, false);
  std::vector<int32_t> open;
  for (size_t state = 0; state < states; ++state) {
    if (!automaton.accepting[state]) continue;
    live[state] = true;
    open.push_back(static_cast<int32_t>(state));
  }
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    for (const int32_t from : before[static_cast<size_t>(at)]) {
      if (live[static_cast<size_t>(from)]) continue;
      live[static_cast<size_t>(from)] = true;
      open.push_back(from);
    }
  }
  return live;
}

}  // namespace

RegexId RegexArena::FromAutomaton(const Automaton& automaton) {
  State& s = *state_;
  const size_t classes = static_cast<size_t>(automaton.classes.count);
  const size_t states = automaton.accepting.size();
  TW_CHECK(states > 0 && automaton.next.size() == states * classes);
  const std::vector<bool> live = LiveStates(automaton);
  if (!live[0]) return kNothing;
  const auto base = static_cast<RegexId>(s.nodes.size());
  RegexNode node;
  node.op = RegexOp::kState;
  node.classes = s.PartitionLike(automaton.classes);
  const auto& interned = s.partitions[static_cast<size_t>(node.classes)];
  TW_CHECK_EQ(interned.count, automaton.classes.count);
  for (size_t state = 0; state < states; ++state) {
    node.nullable = automaton.accepting[state];
    node.row = static_cast<int32_t>(s.rows.size());
    for (size_t c = 0; c < classes; ++c) {
      const size_t from = automaton.classes.class_of[interned.representative[c]];
      const int32_t next = automaton.next[state * classes + from];
      s.rows.push_back(next >= 0 && live[static_cast<size_t>(next)] ? base + next : kNothing);
    }
    s.AddState(node);
  }
  return base;
}

std::optional<RegexId> RegexArena::Determinise(RegexId of, int64_t most_states) {
  State& s = *state_;
  std::vector<RegexId> states = {of};
  std::unordered_map<RegexId, int32_t> index = {{of, 0}};
  int32_t partition = s.PartitionOf(of);
  for (size_t i = 0; i < states.size(); ++i) {
    const Classes classes = ClassesOf(states[i]);
    partition = s.Product(partition, s.PartitionOf(states[i]));
    for (int32_t c = 0; c < classes.count; ++c) {
      const RegexId next = Derivative(states[i], classes.representative[static_cast<size_t>(c)]);
      if (s.exhausted) return std::nullopt;
      if (next == kNothing) continue;
      if (!index.try_emplace(next, static_cast<int32_t>(states.size())).second) continue;
      states.push_back(next);
      if (static_cast<int64_t>(states.size()) > most_states) return std::nullopt;
    }
  }
  Automaton automaton;
  automaton.classes = s.partitions[static_cast<size_t>(partition)];
  for (const RegexId state : states) {
    automaton.accepting.push_back(Nullable(state));
    for (int32_t c = 0; c < automaton.classes.count; ++c) {
      const uint8_t byte = automaton.classes.representative[static_cast<size_t>(c)];
      const RegexId next = Derivative(state, byte);
      automaton.next.push_back(next == kNothing ? -1 : index.at(next));
    }
  }
  return FromAutomaton(Minimised(automaton));
}

// States that no text tells apart become one (Moore 1956).
RegexArena::Automaton RegexArena::Minimised(const Automaton& of) {
  const size_t classes = static_cast<size_t>(of.classes.count);
  const size_t states = of.accepting.size();
  std::vector<int32_t> block(states);
  for (size_t i = 0; i < states; ++i) block[i] = of.accepting[i] ? 1 : 0;
  size_t count = 0;
  std::vector<int32_t> first;  // a state of each block
  for (bool changed = true; changed;) {
    std::map<std::vector<int32_t>, int32_t> blocks;
    std::vector<int32_t> refined(states);
    first.clear();
    for (size_t i = 0; i < states; ++i) {
      std::vector<int32_t> key = {block[i]};
      for (size_t c = 0; c < classes; ++c) {
        const int32_t next = of.next[i * classes + c];
        key.push_back(next < 0 ? -1 : block[static_cast<size_t>(next)]);
      }
      const auto [it, added] =
          blocks.try_emplace(std::move(key), static_cast<int32_t>(first.size()));
      if (added) first.push_back(static_cast<int32_t>(i));
      refined[i] = it->second;
    }
    changed = first.size() != count;
    count = first.size();
    block = std::move(refined);
  }
  Automaton small;
  small.classes = of.classes;
  for (const int32_t state : first) {
    small.accepting.push_back(of.accepting[static_cast<size_t>(state)]);
    for (size_t c = 0; c < classes; ++c) {
      const int32_t next = of.next[static_cast<size_t>(state) * classes + c];
      small.next.push_back(next < 0 ? -1 : block[static_cast<size_t>(next)]);
    }
  }
  return small;
}

}  // namespace thalweg::grammar
