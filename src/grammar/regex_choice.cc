// Unions and intersections, simplified so that equal ones are mostly the same node: what keeps the
// number of derivatives, and of states, small.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "grammar/regex_arena.h"
#include "grammar/regex_nodes.h"

namespace thalweg::grammar {

void SortUnique(std::vector<RegexId>* items) {
  std::ranges::sort(*items);
  const auto rest = std::ranges::unique(*items);
  items->erase(rest.begin(), rest.end());
}

// One choice, seen as body{min,max} tail.
struct RegexArena::Run {
  RegexId body;
  RegexId tail;
  int64_t min;
  int64_t max;  // INT64_MAX: no limit
  bool operator<(const Run& other) const {
    return std::tie(body, tail, min, max) < std::tie(other.body, other.tail, other.min, other.max);
  }
};

// Choices that begin alike share their beginning: texts by their first byte, others by their head.
// A thousand names become a trie, so that a derivative does not look at each.
bool RegexArena::ShareHeads(std::vector<RegexId>* choices) {
  State& s = *state_;
  std::vector<std::pair<int64_t, RegexId>> keyed;
  for (const RegexId choice : *choices) {
    const RegexId head = s.Head(choice);
    keyed.emplace_back(s.IsText(head) ? s.FirstByte(head) : 256 + int64_t{head}, choice);
  }
  std::ranges::sort(keyed);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::adjacent_find(keyed.begin(), keyed.end(), same) == keyed.end()) return false;
  choices->clear();
  std::vector<RegexId> group;
  for (size_t begin = 0; begin < keyed.size();) {
    size_t end = begin;
    group.clear();
    for (; end < keyed.size() && keyed[end].first == keyed[begin].first; ++end) {
      group.push_back(keyed[end].second);
    }
    choices->push_back(group.size() == 1 ? group[0] : ShareHead(group));
    begin = end;
  }
  SortUnique(choices);
  return true;
}

// `group` begins with one text, or with one and the same head.
RegexId RegexArena::ShareHead(std::span<const RegexId> group) {
  State& s = *state_;
  const RegexId head = s.Head(group[0]);
  std::vector<RegexId> rests;
  if (!s.IsText(head)) {
    for (const RegexId choice : group) rests.push_back(s.Tail(choice));
    return Prepend(head, Either(rests));
  }
  std::string prefix;
  std::string other;
  s.AppendText(head, &prefix);
  for (const RegexId choice : group) {
    other.clear();
    s.AppendText(s.Head(choice), &other);
    const auto differ = std::ranges::mismatch(prefix, other);
    prefix.erase(differ.in1, prefix.end());
  }
  const auto length = static_cast<int32_t>(prefix.size());
  for (const RegexId choice : group) {
    rests.push_back(Concat(s.Suffix(s.Head(choice), length), s.Tail(choice)));
  }
  return Prepend(s.Literal(prefix), Either(rests));
}

// [ab] X | [cd] X is [abcd] X.
void RegexArena::UniteSets(std::vector<RegexId>* choices) {
  State& s = *state_;
  std::vector<std::pair<RegexId, RegexId>> by_tail;
  const auto is_set = [&](RegexId choice) { return s.at(s.Head(choice)).op == RegexOp::kSet; };
  for (const RegexId choice : *choices) {
    if (is_set(choice)) by_tail.emplace_back(s.Tail(choice), choice);
  }
  std::ranges::sort(by_tail);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::adjacent_find(by_tail.begin(), by_tail.end(), same) == by_tail.end()) return;
  std::erase_if(*choices, is_set);
  for (size_t begin = 0; begin < by_tail.size();) {
    size_t end = begin;
    ByteSet all;
    for (; end < by_tail.size() && by_tail[end].first == by_tail[begin].first; ++end) {
      all = all | s.sets[static_cast<size_t>(s.at(s.Head(by_tail[end].second)).a)];
    }
    const bool alone = end - begin == 1;
    choices->push_back(alone ? by_tail[begin].second : Prepend(s.Set(all), by_tail[begin].first));
    begin = end;
  }
  SortUnique(choices);
}

// Each choice as a run. One copy or more of something before what is a choice by itself are no copy
// or more, and that choice is not needed any longer, unless it has taken over another one.
std::vector<RegexArena::Run> RegexArena::RunsOf(std::span<const RegexId> choices,
                                                bool* with_empty) {
  const State& s = *state_;
  std::vector<Run> runs;
  std::vector<bool> absorbed(choices.size(), false);
  for (const RegexId choice : choices) {
    const RegexId head = s.Head(choice);
    const RegexNode& node = s.at(head);
    Run run{head, s.Tail(choice), 1, 1};
    if (node.op == RegexOp::kRepeat) {
      run = {node.a, run.tail, node.b, node.c < 0 ? INT64_MAX : node.c};
    }
    const auto tail = std::ranges::lower_bound(choices, run.tail);
    if (node.op == RegexOp::kRepeat && run.min == 1) {
      if (run.tail == kEmptyString && *with_empty) {
        *with_empty = false;
        run.min = 0;
      } else if (tail != choices.end() && *tail == run.tail) {
        absorbed[static_cast<size_t>(tail - choices.begin())] = true;
        run.min = 0;
      }
    }
    runs.push_back(run);
  }
  std::vector<Run> kept;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!absorbed[i] || runs[i].min == 0) kept.push_back(runs[i]);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

// r{0,2} X | r{1,5} X is r{0,5} X, and X | r{1,3} X is r{0,3} X.
void RegexArena::UniteRepeats(std::vector<RegexId>* choices, bool* with_empty) {
  State& s = *state_;
  const auto repeats = [&](RegexId choice) { return s.at(s.Head(choice)).op == RegexOp::kRepeat; };
  if (std::ranges::none_of(*choices, repeats)) return;
  const std::vector<Run> runs = RunsOf(*choices, with_empty);
  choices->clear();
  for (size_t i = 0; i < runs.size();) {
    Run all = runs[i];
    for (++i; i < runs.size() && runs[i].body == all.body && runs[i].tail == all.tail &&
              (all.max == INT64_MAX || runs[i].min <= all.max + 1);
         ++i) {
      all.max = std::max(all.max, runs[i].max);
    }
    const RegexId repeat = Repeat(all.body, all.min, all.max == INT64_MAX ? -1 : all.max);
    choices->push_back(Concat(repeat, all.tail));
  }
  SortUnique(choices);
}

// The choices of `from` one by one; the empty string apart.
void RegexArena::Flatten(RegexId from, std::vector<RegexId>* choices, bool* with_empty) {
  const RegexNode node = state_->at(from);
  if (from == kNothing) return;
  if (from == kEmptyString) {
    *with_empty = true;
  } else if (node.op == RegexOp::kEither) {
    const auto list = state_->ListOf(node);
    choices->insert(choices->end(), list.begin(), list.end());
  } else if (node.op == RegexOp::kRepeat && node.b == 0 && node.c == 1) {
    *with_empty = true;
    Flatten(node.a, choices, with_empty);
  } else {
    choices->push_back(from);
  }
}

RegexId RegexArena::Either(std::span<const RegexId> of) {
  State& s = *state_;
  std::vector<RegexId> choices;
  bool with_empty = false;
  for (const RegexId choice : of) Flatten(choice, &choices, &with_empty);
  if (s.Spend(static_cast<int64_t>(choices.size()))) return kNothing;
  SortUnique(&choices);
  if (std::ranges::binary_search(choices, kAnything)) return kAnything;
  if (choices.size() > 1) {
    UniteSets(&choices);
    ShareHeads(&choices);
    UniteSets(&choices);
    UniteRepeats(&choices, &with_empty);
  }
  if (choices.empty()) return with_empty ? kEmptyString : kNothing;
  const RegexId all = choices.size() == 1 ? choices[0] : s.List(RegexOp::kEither, choices);
  return with_empty ? Repeat(all, 0, 1) : all;
}

RegexId RegexArena::Either(RegexId first, RegexId second) {
  if (first == second || second == kNothing) return first;
  if (first == kNothing) return second;
  const RegexId choices[] = {first, second};
  return Either(choices);
}

// A text, the empty string or a set is in an intersection where every other part has it.
std::optional<RegexId> RegexArena::BothWithFinite(std::span<const RegexId> parts) {
  State& s = *state_;
  const auto finite = std::ranges::find_if(parts, [&](RegexId part) {
    return part == kEmptyString || s.at(part).op == RegexOp::kSet || s.IsText(part);
  });
  if (finite == parts.end()) return std::nullopt;
  const RegexNode node = s.at(*finite);
  const auto in_all = [&](std::string_view text) {
    return std::ranges::all_of(parts, [&](RegexId part) { return Matches(part, text); });
  };
  if (*finite == kEmptyString) return in_all("") ? kEmptyString : kNothing;
  if (node.op == RegexOp::kLiteral) {
    return in_all(std::string(s.TextOf(node))) ? *finite : kNothing;
  }
  ByteSet left;
  const ByteSet all = s.sets[static_cast<size_t>(node.a)];
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (all.Has(static_cast<uint8_t>(byte)) && in_all({&text, 1})) {
      left.Add(static_cast<uint8_t>(byte));
    }
  }
  return Bytes(left);
}

RegexId RegexArena::Both(std::span<const RegexId> of) {
  State& s = *state_;
  std::vector<RegexId> parts;
  std::vector<RegexId> excluded;
  const auto add = [&](RegexId part) {
    if (s.at(part).op == RegexOp::kNot) {
      excluded.push_back(s.at(part).a);
    } else if (part != kAnything) {
      parts.push_back(part);
    }
  };
  for (const RegexId part : of) {
    const RegexNode node = s.at(part);
    if (node.op != RegexOp::kBoth) {
      add(part);
      continue;
    }
    for (const RegexId inner : s.ListOf(node)) add(inner);
  }
  if (s.Spend(static_cast<int64_t>(parts.size() + excluded.size()))) return kNothing;
  SortUnique(&parts);
  const auto meets = [&](RegexId out) { return std::ranges::binary_search(parts, out); };
  if (meets(kNothing) || std::ranges::any_of(excluded, meets)) return kNothing;
  if (!excluded.empty()) {
    const RegexId out = Either(excluded);
    if (out == kAnything || meets(out)) return kNothing;
    if (out != kNothing) parts.push_back(Not(out));
    SortUnique(&parts);
  }
  if (parts.empty()) return kAnything;
  if (parts.size() == 1) return parts[0];
  if (const auto finite = BothWithFinite(parts)) return *finite;
  return s.List(RegexOp::kBoth, parts);
}

RegexId RegexArena::Both(RegexId first, RegexId second) {
  const RegexId parts[] = {first, second};
  return Both(parts);
}

}  // namespace thalweg::grammar
