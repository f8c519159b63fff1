#include "grammar/earley_terminals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace thalweg::grammar {
namespace {

// Expressions that may be looked at to learn whether a derivative is empty.
constexpr int64_t kMostStates = 1 << 16;
// Steps of the arena in one operation: tenths of a second.
constexpr int64_t kMostSteps = 50'000'000;
constexpr int32_t kMostExceptions = 12;
// Partitions whose product is made; beyond, every byte is a class.
constexpr size_t kMostFactors = 8;

Status TooComplex() {
  return base::ResourceExhausted(
      fmt::format("an expression of the constraint takes more than {} steps to follow: use smaller "
                  "intersections, exclusions or repetitions",
                  kMostSteps));
}

}  // namespace

Terminals::Terminals(RegexArena* arena, const Vocabulary::Trie& trie)
    : arena_(*arena), trie_(trie), arena_bytes_(arena->bytes()) {
  uniforms_.emplace_back();  // index 0: not asked yet
  std::array<uint8_t, 256> labels = {};
  all_alike_ = Intern(labels);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<uint8_t>(i);
  bytes_apart_ = Intern(labels);
}

void Terminals::StartWork() {
  failure_ = {};
  arena_.LimitWork(kMostSteps);
}

int64_t Terminals::bytes() const {
  const size_t own = terminals_.size() * sizeof(void*) + uniforms_.size() * sizeof(Uniform);
  return bytes_ + pool_.bytes() + static_cast<int64_t>(own) + arena_.bytes() - arena_bytes_;
}

// `labels` renumbered by first occurrence are the key, so that equal partitions are one.
const Partition* Terminals::Intern(const std::array<uint8_t, 256>& labels) {
  auto partition = std::make_unique<Partition>();
  std::array<int32_t, 256> renamed;
  renamed.fill(-1);
  for (size_t byte = 0; byte < 256; ++byte) {
    int32_t& name = renamed[labels[byte]];
    if (name < 0) {
      name = partition->count++;
      partition->representative[static_cast<size_t>(name)] = static_cast<uint8_t>(byte);
    }
    partition->class_of[byte] = static_cast<uint8_t>(name);
  }
  auto [at, is_new] = partitions_.try_emplace(partition->class_of);
  if (is_new) {
    partition->number = static_cast<int32_t>(partitions_.size()) - 1;
    partition->bytes.resize(static_cast<size_t>(partition->count));
    for (size_t byte = 0; byte < 256; ++byte) {
      partition->bytes[partition->class_of[byte]].Add(static_cast<uint8_t>(byte));
    }
    at->second = std::move(partition);
    bytes_ += static_cast<int64_t>(sizeof(Partition)) + 320;
  }
  return at->second.get();
}

const Partition* Terminals::Product(const Partition* a, const Partition* b) {
  if (a == b || b == all_alike_) return a;
  if (a == all_alike_) return b;
  const auto [low, high] = std::minmax(a->number, b->number);
  const Partition*& product =
      products_[static_cast<uint64_t>(low) << 32 | static_cast<uint64_t>(high)];
  if (product != nullptr) return product;
  std::map<std::pair<uint8_t, uint8_t>, uint8_t> names;
  std::array<uint8_t, 256> labels;
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto name = static_cast<uint8_t>(names.size());
    labels[byte] = names.try_emplace({a->class_of[byte], b->class_of[byte]}, name).first->second;
  }
  return product = Intern(labels);
}

const Partition* Terminals::Product(std::span<const Terminal* const> terminals) {
  factors_.clear();
  for (const Terminal* terminal : terminals) {
    const Partition* partition = terminal->partition;
    if (std::find(factors_.begin(), factors_.end(), partition) != factors_.end()) continue;
    if (factors_.size() == kMostFactors) return bytes_apart_;
    factors_.push_back(partition);
  }
  const Partition* product = all_alike_;
  for (const Partition* factor : factors_) product = Product(product, factor);
  return product;
}

const Partition* Terminals::PartitionOf(RegexId expression) {
  const RegexArena::Classes& classes = arena_.ClassesOf(expression);
  const Partition*& partition = of_arena_[&classes];
  if (partition == nullptr) partition = Intern(classes.class_of);
  return partition;
}

const Terminal* Terminals::Make(RegexId expression) {
  const auto index = static_cast<size_t>(expression);
  if (index >= terminals_.size()) {
    terminals_.resize(std::max(index + 1, terminals_.size() * 2));
  }
  auto* terminal = new (pool_.Allocate(sizeof(Terminal))) Terminal;
  terminal->partition = PartitionOf(expression);
  terminal->nullable = arena_.Nullable(expression);
  const auto classes = static_cast<size_t>(terminal->partition->count);
  terminal->next = {static_cast<RegexId*>(pool_.Allocate(classes * sizeof(RegexId))), classes};
  if (!FillNext(expression, terminal)) return nullptr;
  return terminals_[index] = terminal;
}

bool Terminals::FillNext(RegexId expression, Terminal* terminal) {
  for (size_t c = 0; c < terminal->next.size(); ++c) {
    const RegexId next = arena_.Derivative(expression, terminal->partition->representative[c]);
    const std::optional<bool> nothing = arena_.IsNothing(next, kMostStates);
    if (arena_.exhausted() || !nothing.has_value()) {
      failure_ = TooComplex();
      return false;
    }
    terminal->next[c] = *nothing ? kNothing : next;
    if (!*nothing) terminal->live = terminal->live | terminal->partition->bytes[c];
  }
  return true;
}

const Uniform* Terminals::UniformOf(RegexId expression, int32_t alphabet) {
  const Terminal* terminal = Of(expression);
  if (terminal == nullptr) return nullptr;
  const auto a = static_cast<size_t>(alphabet);
  if (terminal->uniform[a] == 0) {
    const Uniform made = MakeUniform(*terminal, alphabet);
    if (!failure_.ok()) return nullptr;
    terminals_[static_cast<size_t>(expression)]->uniform[a] =
        static_cast<int32_t>(uniforms_.size());
    uniforms_.push_back(made);
  }
  return &uniforms_[static_cast<size_t>(terminal->uniform[a])];
}

Uniform Terminals::MakeUniform(const Terminal& terminal, int32_t alphabet) {
  const Alphabet& of = trie_.alphabets[static_cast<size_t>(alphabet)];
  Uniform uniform;
  uniform.next = MostCommon(terminal, of.ascii);
  int32_t exceptions = 0;
  for (int byte = 0; byte < 128; ++byte) {
    const auto b = static_cast<uint8_t>(byte);
    if (!of.ascii.Has(b) || terminal.Next(b) == uniform.next) continue;
    if (!trie_.exceptions.Has(b) || ++exceptions > kMostExceptions) return uniform;
    uniform.exceptions.Add(b);
  }
  if (of.beyond_ascii) {
    for (const CharacterSequence& sequence : CharacterSequences()) {
      if (!OnlyLeadsTo(terminal, uniform.next, sequence, 0)) return uniform;
    }
  }
  uniform.holds = true;
  return uniform;
}

// What most bytes of `of` lead to, if it is more than half of them (Boyer and Moore 1981).
RegexId Terminals::MostCommon(const Terminal& terminal, const ByteSet& of) const {
  RegexId candidate = kNothing;
  int32_t votes = 0;
  for (int byte = 0; byte < 128; ++byte) {
    if (!of.Has(static_cast<uint8_t>(byte))) continue;
    const RegexId next = terminal.Next(static_cast<uint8_t>(byte));
    if (votes == 0) candidate = next;
    votes += next == candidate ? 1 : -1;
  }
  return candidate;
}

// Whether every string of sequence.bytes[at..] leads from the expression `from` to `to`, and no
// text ends in the middle of one.
bool Terminals::OnlyLeadsTo(RegexId from, RegexId to, const CharacterSequence& sequence,
                            int32_t at) {
  if (at == sequence.length) return from == to;
  if (from == kNothing) return to == kNothing;
  if (to == kNothing) return false;  // something may live beyond, but need not be found out
  const Terminal* terminal = Of(from);
  if (terminal == nullptr || terminal->nullable) return false;
  return OnlyLeadsTo(*terminal, to, sequence, at);
}

bool Terminals::OnlyLeadsTo(const Terminal& from, RegexId to, const CharacterSequence& sequence,
                            int32_t at) {
  const ByteRange range = sequence.bytes[static_cast<size_t>(at)];
  RegexId before = -1;
  for (int byte = range.first; byte <= range.last; ++byte) {
    const RegexId next = from.Next(static_cast<uint8_t>(byte));
    if (next == before) continue;
    if (!OnlyLeadsTo(next, to, sequence, at + 1)) return false;
    before = next;
  }
  return true;
}

}  // namespace thalweg::grammar
