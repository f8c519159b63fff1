// A compiled grammar, and how far one sequence has come in it: token masks, acceptance, rollback.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/rules.h"
#include "grammar/vocabulary.h"

namespace thalweg::grammar {

// Bit t % 32 of word t / 32: token t may come next. mask_words() words; bits beyond the vocabulary
// are 0.
using Mask = std::vector<uint32_t>;

// Shared by every sequence under the same constraint; states and masks are made when they are
// first needed and kept within a budget of bytes. Thread-safe.
class Grammar {
 public:
  // An error when the language is empty (no text can satisfy the constraint), or when the limits
  // do not allow for its first state.
  static Result<std::shared_ptr<Grammar>> Create(Rules rules,
                                                 std::shared_ptr<const Vocabulary> vocabulary,
                                                 const Limits& limits = {});
  ~Grammar();
  const Vocabulary& vocabulary() const;
  int64_t bytes() const;  // of memory, about: for a cache of grammars

  class Automaton;  // automaton.h
  Automaton& automaton() { return *automaton_; }

 private:
  explicit Grammar(std::unique_ptr<Automaton> automaton);
  std::unique_ptr<Automaton> automaton_;
};

// One sequence. A copy is a fork and costs little. Not thread-safe; different matchers of one
// grammar may run on different threads.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Grammar> grammar);
  Matcher(const Matcher& other);
  Matcher(Matcher&&) noexcept = default;
  Matcher& operator=(Matcher other) noexcept;
  ~Matcher();

  // What may come next; shared with others in the same state. Exactly the tokens after which some
  // continuation completes the text; end tokens where it is complete now. After the end: no token.
  // An error (the budget of states or time is used up) leaves the matcher as it is.
  Result<std::shared_ptr<const Mask>> NextMask();
  // false: not allowed, and nothing has changed. Does not need a mask before.
  Result<bool> Accept(int32_t token);
  // How many of `tokens`, in order, would be accepted; changes nothing.
  Result<int64_t> CountAccepted(std::span<const int32_t> tokens);
  // Takes back the newest `tokens` accepted ones, an end token included; as many as there are.
  void Rollback(int64_t tokens);

  const Vocabulary& vocabulary() const { return grammar_->vocabulary(); }
  int64_t accepted() const;  // tokens so far
  bool can_end() const;      // the text is complete as it is
  bool ended() const;        // an end token has been accepted
  bool must_end() const;     // complete, and nothing can follow
  // The bytes that must come next whatever is chosen (empty: there is a choice, or an end is
  // possible); at most `most` of them.
  Result<std::string> ForcedBytes(int64_t most);
  // The token without bytes that must come next, where no bytes may; < 0: there is a choice, or an
  // end is possible.
  Result<int32_t> ForcedToken();

 private:
  Grammar::Automaton& automaton() const { return grammar_->automaton(); }

  std::shared_ptr<Grammar> grammar_;  // null when moved from
  std::vector<int32_t> states_;       // after each accepted token; [0]: before the first
};

}  // namespace thalweg::grammar
