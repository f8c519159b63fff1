// Regular languages over bytes as interned expressions with derivatives (Brzozowski 1964; Owens,
// Reppy and Turon 2009): equal expressions have equal ids, so an automaton is a map of ids.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace thalweg::grammar {

// A set of bytes.
class ByteSet {
 public:
  static ByteSet All();
  static ByteSet Range(uint8_t first, uint8_t last);  // both in it; first <= last

  void Add(uint8_t byte) { words_[byte >> 6] |= uint64_t{1} << (byte & 63); }
  bool Has(uint8_t byte) const { return (words_[byte >> 6] >> (byte & 63) & 1) != 0; }
  bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  ByteSet operator|(const ByteSet& other) const;
  ByteSet operator&(const ByteSet& other) const;
  ByteSet operator~() const;
  bool operator==(const ByteSet&) const = default;
  const std::array<uint64_t, 4>& words() const { return words_; }

 private:
  std::array<uint64_t, 4> words_ = {};
};

using RegexId = int32_t;
inline constexpr RegexId kNothing = 0;      // the empty language
inline constexpr RegexId kEmptyString = 1;  // the language of the empty string alone
inline constexpr RegexId kAnything = 2;     // every byte string

// Owns expressions; not thread-safe. Constructors simplify (flattened, sorted, without duplicates,
// kNothing and kEmptyString absorbed), so that the derivatives of one expression are few.
class RegexArena {
 public:
  RegexArena();
  ~RegexArena();
  RegexArena(RegexArena&&) noexcept;
  RegexArena& operator=(RegexArena&&) noexcept;

  RegexId Bytes(const ByteSet& bytes);
  RegexId Literal(std::string_view bytes);
  RegexId Concat(std::span<const RegexId> parts);
  RegexId Concat(RegexId first, RegexId second);
  RegexId Either(std::span<const RegexId> choices);
  RegexId Either(RegexId first, RegexId second);
  RegexId Both(std::span<const RegexId> parts);  // intersection
  RegexId Both(RegexId first, RegexId second);
  RegexId Not(RegexId of);  // of all byte strings
  // min to max times in a row; max < 0: without limit. 0 <= min.
  RegexId Repeat(RegexId of, int64_t min, int64_t max);

  bool Nullable(RegexId of) const;
  // Made without Both and Not: the empty language only if it is kNothing.
  bool Positive(RegexId of) const;
  RegexId Derivative(RegexId of, uint8_t byte);
  // The partition of bytes by their derivatives, or a finer one: class_of[byte] in [0, count).
  struct Classes {
    std::array<uint8_t, 256> class_of;
    int32_t count;
    std::array<uint8_t, 256> representative;  // of each class
  };
  const Classes& ClassesOf(RegexId of);
  // A deterministic automaton; state 0 is the first. FromAutomaton makes an expression of it, whose
  // derivatives are its states: for languages that are easier to count than to write.
  struct Automaton {
    Classes classes;
    std::vector<bool> accepting;  // [states], one or more
    std::vector<int32_t> next;    // [states][classes.count], -1: nothing matches from here
  };
  RegexId FromAutomaton(const Automaton& automaton);
  // The same language without Both and Not inside and with the fewest states, so that IsNothing
  // is immediate; nothing if the automaton has more than `most_states` before it is minimised.
  std::optional<RegexId> Determinise(RegexId of, int64_t most_states);

  // Whether no string is in the language, following derivatives through at most `most_states` of
  // them (remembered between calls); nothing: more would be needed.
  std::optional<bool> IsNothing(RegexId of, int64_t most_states);
  bool Matches(RegexId of, std::string_view text);

  // A single derivative of a hostile expression can take very long. After `steps` more steps (about
  // an expression looked at each) every operation answers kNothing, which is wrong, and exhausted()
  // is true until the next LimitWork: what was computed meanwhile must be thrown away.
  void LimitWork(int64_t steps);
  void Charge(int64_t steps);  // for work outside that makes expressions
  bool exhausted() const;

  int64_t size() const;   // expressions
  int64_t bytes() const;  // of memory, about

  struct State;  // regex_nodes.h

 private:
  struct Run;
  static Automaton Minimised(const Automaton& of);
  std::optional<RegexId> RepeatOfRepeat(RegexId of, int64_t min, int64_t max);
  std::optional<RegexId> Join(RegexId first, RegexId second);
  RegexId Prepend(RegexId first, RegexId rest);
  void Flatten(RegexId from, std::vector<RegexId>* choices, bool* with_empty);
  bool ShareHeads(std::vector<RegexId>* choices);
  RegexId ShareHead(std::span<const RegexId> group);
  void UniteSets(std::vector<RegexId>* choices);
  std::vector<Run> RunsOf(std::span<const RegexId> choices, bool* with_empty);
  void UniteRepeats(std::vector<RegexId>* choices, bool* with_empty);
  std::optional<RegexId> BothWithFinite(std::span<const RegexId> parts);
  std::optional<RegexId> SimpleDerivative(RegexId of, uint8_t byte);
  RegexId NewDerivative(RegexId of, uint8_t byte);
  RegexId DerivativeOfConcat(RegexId of, uint8_t byte);
  RegexId DerivativeOfList(RegexId of, uint8_t byte);
  std::optional<bool> NoneOfThem(RegexId either, int64_t most_states);
  std::optional<bool> Explore(RegexId of, int64_t most_states);
  std::unique_ptr<State> state_;
};

}  // namespace thalweg::grammar
