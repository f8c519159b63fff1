// What the matchers of one grammar share: its states, the steps between them, their masks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "grammar/earley_program.h"
#include "grammar/earley_rows.h"
#include "grammar/earley_terminals.h"
#include "grammar/mask.h"
#include "grammar/mask_cache.h"
#include "grammar/matcher.h"

namespace thalweg::grammar {

// States are rows of the parser, pinned by those who keep them; all that is named here is pinned.
// Thread-safe: one lock for the states, a brief one for the masks that are there already.
//
// When the budget of bytes is used up, everything that no matcher needs is forgotten, and the
// operation tried once more, before it fails.
class Grammar::Automaton {
 public:
  static constexpr int32_t kDead = Rows::kDead;

  static Result<std::unique_ptr<Automaton>> Make(Rules rules,
                                                 std::shared_ptr<const Vocabulary> vocabulary,
                                                 const Limits& limits);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  int32_t start() const { return rows_->start(); }
  void Pin(std::span<const int32_t> states);
  void Unpin(std::span<const int32_t> states);

  bool Accepts(int32_t state);
  Result<bool> CanGoOn(int32_t state);
  Result<std::shared_ptr<const Mask>> MaskOf(int32_t state);
  // The same, by the plain walk and not remembered: for tests.
  Result<std::shared_ptr<const Mask>> PlainMaskOf(int32_t state);
  // The state after the token, pinned; kDead: not allowed.
  Result<int32_t> Step(int32_t state, int32_t token);
  // How many of `tokens` are allowed after one another, up to one that ends the text.
  struct Steps {
    int64_t taken;
    bool can_end;  // after those; false where the next one is not allowed
  };
  Result<Steps> TryAll(int32_t state, std::span<const int32_t> tokens);
  Result<std::string> ForcedBytes(int32_t state, int64_t most);
  Result<int32_t> ForcedToken(int32_t state);

  int64_t bytes();
  int64_t states() const;
  int64_t masks() const { return masks_.made(); }  // so far
  bool IsEnd(int32_t token) const;

 private:
  Automaton(Rules rules, std::shared_ptr<const Vocabulary> vocabulary, const Limits& limits);
  Status Start();
  // Runs `operation` under the lock, and once more when room could be made.
  template <typename Operation>
  auto Run(const Operation& operation) -> Result<decltype(operation())>;
  void MakeRoom();

  std::shared_ptr<const Mask> FindOrMake(int32_t state);
  int32_t After(int32_t state, int32_t token);
  int32_t AfterBytes(int32_t state, std::string_view bytes);
  std::string Forced(int32_t state, int64_t most);

  mutable std::mutex mutex_;  // of everything but the masks
  std::shared_ptr<const Vocabulary> vocabulary_;
  const Limits limits_;
  Rules rules_;
  Program program_;
  std::unique_ptr<Terminals> terminals_;
  std::unique_ptr<Rows> rows_;
  std::unique_ptr<MaskMaker> maker_;
  MaskCache masks_;
};

}  // namespace thalweg::grammar
