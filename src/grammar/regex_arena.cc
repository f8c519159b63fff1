#include "grammar/regex_arena.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "grammar/regex_nodes.h"

namespace thalweg::grammar {

ByteSet ByteSet::All() { return ~ByteSet(); }

ByteSet ByteSet::Range(uint8_t first, uint8_t last) {
  ByteSet set;
  for (int byte = first; byte <= last; ++byte) set.Add(static_cast<uint8_t>(byte));
  return set;
}

ByteSet ByteSet::operator|(const ByteSet& other) const {
  ByteSet set;
  for (size_t i = 0; i < 4; ++i) set.words_[i] = words_[i] | other.words_[i];
  return set;
}

ByteSet ByteSet::operator&(const ByteSet& other) const {
  ByteSet set;
  for (size_t i = 0; i < 4; ++i) set.words_[i] = words_[i] & other.words_[i];
  return set;
}

ByteSet ByteSet::operator~() const {
  ByteSet set;
  for (size_t i = 0; i < 4; ++i) set.words_[i] = ~words_[i];
  return set;
}

RegexArena::RegexArena() : state_(std::make_unique<State>()) {}
RegexArena::~RegexArena() = default;
RegexArena::RegexArena(RegexArena&&) noexcept = default;
RegexArena& RegexArena::operator=(RegexArena&&) noexcept = default;

RegexId RegexArena::Bytes(const ByteSet& bytes) {
  return bytes.empty() ? kNothing : state_->Set(bytes);
}

RegexId RegexArena::Literal(std::string_view bytes) {
  return bytes.empty() ? kEmptyString : state_->Literal(bytes);
}

RegexId RegexArena::Not(RegexId of) {
  if (of == kNothing) return kAnything;
  if (of == kAnything) return kNothing;
  const RegexNode& node = state_->at(of);
  return node.op == RegexOp::kNot ? node.a : state_->Complement(of);
}

// (r{a,b}){min,max} as one repetition of r, where that is the same language.
std::optional<RegexId> RegexArena::RepeatOfRepeat(RegexId of, int64_t min, int64_t max) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const RegexNode inner = state_->at(of);
  if (inner.op != RegexOp::kRepeat) return std::nullopt;
  const bool endless = inner.c < 0 || max < 0;
  // Every count from a * min up is reached when the gaps between a * k and b * k close: when a is 0
  // or 1 and b has no end (or the outer count none), when a is 0, or when the outer count is fixed.
  const bool exact = (min == max) || inner.b == 0 || (inner.b == 1 && endless);
  if (!exact) return std::nullopt;
  const int64_t low = inner.b * min;
  const int64_t high = endless ? -1 : inner.c * max;
  if (low > kMost || high > kMost) return std::nullopt;
  return Repeat(inner.a, low, high);
}

RegexId RegexArena::Repeat(RegexId of, int64_t min, int64_t max) {
  TW_CHECK(min >= 0 && min <= INT32_MAX && max <= INT32_MAX);
  if (max >= 0 && max < min) return kNothing;
  if (max == 0 || of == kEmptyString) return kEmptyString;
  if (of == kNothing) return min == 0 ? kEmptyString : kNothing;
  if (state_->at(of).nullable) min = 0;
  if (max == 1 && (min == 1 || state_->at(of).nullable)) return of;
  if (const auto merged = RepeatOfRepeat(of, min, max)) return *merged;
  return state_->Counted(of, min, max < 0 ? -1 : max);
}

// Two neighbours as one, where they are texts or repetitions of the same thing.
std::optional<RegexId> RegexArena::Join(RegexId first, RegexId second) {
  State& s = *state_;
  if (s.IsText(first) && s.IsText(second)) {
    std::string text;
    s.AppendText(first, &text);
    s.AppendText(second, &text);
    return s.Spend(static_cast<int64_t>(text.size())) ? kNothing : s.Literal(text);
  }
  const RegexNode a = s.at(first);
  const RegexNode b = s.at(second);
  const bool repeat_a = a.op == RegexOp::kRepeat;
  const bool repeat_b = b.op == RegexOp::kRepeat;
  if (!repeat_a && !repeat_b) return std::nullopt;
  const RegexId body_a = repeat_a ? a.a : first;
  const RegexId body_b = repeat_b ? b.a : second;
  // A repetition may be the body of the other one: (r?)(r?)* of some r.
  if (body_a == body_b) {
    const int64_t low = int64_t{repeat_a ? a.b : 1} + (repeat_b ? b.b : 1);
    const bool endless = (repeat_a && a.c < 0) || (repeat_b && b.c < 0);
    const int64_t high = int64_t{repeat_a ? a.c : 1} + (repeat_b ? b.c : 1);
    if (std::max(low, high) > INT32_MAX) return std::nullopt;
    return Repeat(body_a, low, endless ? -1 : high);
  }
  return std::nullopt;
}

// `first` is not a concatenation.
RegexId RegexArena::Prepend(RegexId first, RegexId rest) {
  if (first == kNothing || rest == kNothing) return kNothing;
  if (first == kEmptyString) return rest;
  if (rest == kEmptyString) return first;
  const RegexId head = state_->Head(rest);
  const RegexId tail = state_->Tail(rest);
  const auto joined = Join(first, head);
  if (!joined) return state_->Pair(first, rest);
  return tail == kEmptyString ? *joined : state_->Pair(*joined, tail);
}

RegexId RegexArena::Concat(RegexId first, RegexId second) {
  if (first == kNothing || second == kNothing) return kNothing;
  if (first == kEmptyString) return second;
  if (second == kEmptyString) return first;
  if (state_->at(first).op != RegexOp::kConcat) return Prepend(first, second);
  const RegexId parts[] = {first, second};
  return Concat(parts);
}

RegexId RegexArena::Concat(std::span<const RegexId> parts) {
  State& s = *state_;
  std::vector<RegexId> flat;
  for (const RegexId part : parts) {
    if (part == kNothing) return kNothing;
    RegexId rest = part;
    for (; s.at(rest).op == RegexOp::kConcat; rest = s.at(rest).b) flat.push_back(s.at(rest).a);
    if (rest != kEmptyString) flat.push_back(rest);
  }
  if (s.Spend(static_cast<int64_t>(flat.size()))) return kNothing;
  RegexId result = kEmptyString;
  for (size_t end = flat.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && s.IsText(flat[begin]) && s.IsText(flat[begin - 1])) --begin;
    RegexId next = flat[begin];
    if (end - begin > 1) {
      std::string text;
      for (size_t i = begin; i < end; ++i) s.AppendText(flat[i], &text);
      if (s.Spend(static_cast<int64_t>(text.size()))) return kNothing;
      next = s.Literal(text);
    }
    result = Prepend(next, result);
    end = begin;
  }
  return result;
}

bool RegexArena::Nullable(RegexId of) const { return state_->at(of).nullable; }

bool RegexArena::Positive(RegexId of) const { return !state_->at(of).boolean; }

bool RegexArena::Matches(RegexId of, std::string_view text) {
  for (const char c : text) {
    of = Derivative(of, static_cast<uint8_t>(c));
    if (of == kNothing) return false;
  }
  return Nullable(of);
}

void RegexArena::LimitWork(int64_t steps) {
  state_->most_work = steps > INT64_MAX - state_->work ? INT64_MAX : state_->work + steps;
  state_->exhausted = false;
}

void RegexArena::Charge(int64_t steps) { state_->Spend(steps); }
bool RegexArena::exhausted() const { return state_->exhausted; }
int64_t RegexArena::size() const { return static_cast<int64_t>(state_->nodes.size()); }

int64_t RegexArena::bytes() const {
  const State& s = *state_;
  const size_t bytes = s.nodes.capacity() * (sizeof(RegexNode) + 3 * sizeof(uint32_t)) +
                       (s.lists.capacity() + s.rows.capacity()) * sizeof(RegexId) +
                       s.sets.capacity() * sizeof(ByteSet) + s.text.capacity() +
                       s.partitions.size() * (sizeof(ByteClasses) + 64);
  return static_cast<int64_t>(bytes);
}

}  // namespace thalweg::grammar
