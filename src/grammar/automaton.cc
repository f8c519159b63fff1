#include "grammar/automaton.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace thalweg::grammar {

Grammar::Automaton::Automaton(Rules rules, std::shared_ptr<const Vocabulary> vocabulary,
                              const Limits& limits)
    : vocabulary_(std::move(vocabulary)),
      limits_(limits),
      rules_(std::move(rules)),
      masks_(limits.mask_bytes) {}

Result<std::unique_ptr<Grammar::Automaton>> Grammar::Automaton::Make(
    Rules rules, std::shared_ptr<const Vocabulary> vocabulary, const Limits& limits) {
  TW_CHECK(vocabulary != nullptr);
  std::unique_ptr<Automaton> automaton(
      new Automaton(std::move(rules), std::move(vocabulary), limits));
  TW_TRY(automaton->Start());
  return automaton;
}

Status Grammar::Automaton::Start() {
  TW_ASSIGN(program_, Program::Make(&rules_, vocabulary_->size()));
  terminals_ = std::make_unique<Terminals>(&rules_.regexes(), vocabulary_->trie());
  rows_ = std::make_unique<Rows>(program_, terminals_.get(), limits_);
  maker_ = std::make_unique<MaskMaker>(*vocabulary_, rows_.get(), terminals_.get(),
                                       [this](int32_t row) { return FindOrMake(row); });
  return rows_->failure();
}

template <typename Operation>
auto Grammar::Automaton::Run(const Operation& operation) -> Result<decltype(operation())> {
  const std::lock_guard lock(mutex_);
  rows_->StartWork();
  auto value = operation();
  if (!rows_->failure().ok() && rows_->out_of_bytes()) {
    MakeRoom();
    rows_->StartWork();
    value = operation();
  }
  if (!rows_->failure().ok()) return rows_->failure();
  return value;
}

void Grammar::Automaton::MakeRoom() {
  std::vector<int32_t> freed;
  rows_->Collect(&freed);
  masks_.Forget(freed);
}

void Grammar::Automaton::Pin(std::span<const int32_t> states) {
  const std::lock_guard lock(mutex_);
  for (const int32_t state : states) {
    if (state >= 0) rows_->Pin(state);
  }
}

void Grammar::Automaton::Unpin(std::span<const int32_t> states) {
  const std::lock_guard lock(mutex_);
  for (const int32_t state : states) {
    if (state >= 0) rows_->Unpin(state);
  }
}

bool Grammar::Automaton::Accepts(int32_t state) {
  const std::lock_guard lock(mutex_);
  return rows_->accepts(state);
}

Result<bool> Grammar::Automaton::CanGoOn(int32_t state) {
  return Run([&] {
    const Rows::Closure* closure = rows_->ClosureOf(state);
    return closure != nullptr && !(closure->live.empty() && closure->tokens.empty());
  });
}

std::shared_ptr<const Mask> Grammar::Automaton::FindOrMake(int32_t state) {
  std::shared_ptr<const Mask> mask = masks_.Find(state);
  if (mask != nullptr) return mask;
  mask = maker_->Make(state);
  if (mask != nullptr) masks_.Put(state, mask);
  return mask;
}

Result<std::shared_ptr<const Mask>> Grammar::Automaton::MaskOf(int32_t state) {
  std::shared_ptr<const Mask> mask = masks_.Find(state);
  if (mask != nullptr) return mask;
  return Run([&] { return FindOrMake(state); });
}

Result<std::shared_ptr<const Mask>> Grammar::Automaton::PlainMaskOf(int32_t state) {
  return Run([&] { return maker_->MakePlainly(state); });
}

int32_t Grammar::Automaton::AfterBytes(int32_t state, std::string_view bytes) {
  if (bytes.empty()) return kDead;
  for (const char byte : bytes) {
    state = rows_->Next(state, static_cast<uint8_t>(byte));
    if (state < 0) break;
  }
  return state;
}

int32_t Grammar::Automaton::After(int32_t state, int32_t token) {
  if (token < 0 || token >= vocabulary_->size()) return kDead;
  const int32_t after = AfterBytes(state, vocabulary_->bytes_of(token));
  const Rows::Closure* closure = rows_->ClosureOf(state);
  if (closure == nullptr || closure->tokens.empty()) return after;
  return rows_->Union(after, rows_->NextByToken(state, token));
}

Result<int32_t> Grammar::Automaton::Step(int32_t state, int32_t token) {
  return Run([&] {
    const int32_t after = After(state, token);
    if (after >= 0) rows_->Pin(after);
    return after;
  });
}

Result<Grammar::Automaton::Steps> Grammar::Automaton::TryAll(int32_t state,
                                                             std::span<const int32_t> tokens) {
  return Run([&] {
    Steps steps = {0, rows_->accepts(state)};
    int32_t at = state;
    for (const int32_t token : tokens) {
      if (steps.can_end && IsEnd(token)) break;
      at = After(at, token);
      if (at < 0) {
        steps.can_end = false;
        break;
      }
      ++steps.taken;
      steps.can_end = rows_->accepts(at);
    }
    return steps;
  });
}

Result<std::string> Grammar::Automaton::ForcedBytes(int32_t state, int64_t most) {
  return Run([&] { return Forced(state, most); });
}

Result<int32_t> Grammar::Automaton::ForcedToken(int32_t state) {
  return Run([&]() -> int32_t {
    const Rows::Closure* closure = rows_->ClosureOf(state);
    if (closure == nullptr || rows_->accepts(state) || !closure->live.empty()) return -1;
    int32_t forced = -1;
    for (const Item& item : closure->tokens) {
      const int32_t token = rows_->TokenOf(item);
      if (forced >= 0 && token != forced) return -1;
      forced = token;
    }
    return forced;
  });
}

std::string Grammar::Automaton::Forced(int32_t state, int64_t most) {
  std::string forced;
  while (static_cast<int64_t>(forced.size()) < most && !rows_->accepts(state)) {
    const Rows::Closure* closure = rows_->ClosureOf(state);
    if (closure == nullptr || !closure->tokens.empty()) break;
    int count = 0;
    uint8_t byte = 0;
    for (size_t w = 0; w < 4; ++w) {
      const uint64_t word = closure->live.words()[w];
      count += std::popcount(word);
      if (word != 0)
        byte = static_cast<uint8_t>(w * 64 + static_cast<size_t>(std::countr_zero(word)));
    }
    if (count != 1) break;
    state = rows_->Next(state, byte);
    if (state < 0) break;
    forced.push_back(static_cast<char>(byte));
  }
  return forced;
}

bool Grammar::Automaton::IsEnd(int32_t token) const {
  const std::span<const int32_t> ends = vocabulary_->end_tokens();
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

int64_t Grammar::Automaton::bytes() {
  const std::lock_guard lock(mutex_);
  return rows_->bytes() + program_.bytes() + rules_.regexes().bytes() + masks_.bytes();
}

int64_t Grammar::Automaton::states() const {
  const std::lock_guard lock(mutex_);
  return rows_->count();
}

}  // namespace thalweg::grammar
