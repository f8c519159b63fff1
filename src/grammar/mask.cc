#include "grammar/mask.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "grammar/token_bits.h"

namespace thalweg::grammar {
namespace {

// A walk over so many nodes, or so small a part of all, costs less than any preparation.
constexpr int64_t kFewNodes = 3000;
constexpr int64_t kFewPart = 16;
constexpr int32_t kMostExceptions = 12;

int32_t CountOf(const ByteSet& set) {
  int32_t count = 0;
  for (const uint64_t word : set.words()) count += std::popcount(word);
  return count;
}

}  // namespace

MaskMaker::MaskMaker(const Vocabulary& vocabulary, Rows* rows, Terminals* terminals, MaskOf mask_of)
    : vocabulary_(vocabulary),
      trie_(vocabulary.trie()),
      rows_(*rows),
      terminals_(*terminals),
      mask_of_(std::move(mask_of)) {}

std::shared_ptr<const Mask> MaskMaker::Make(int32_t row) {
  auto mask = std::make_shared<Mask>(static_cast<size_t>(vocabulary_.mask_words()));
  if (!Fill(row, mask.get()) || !AddEnds(row, mask.get())) return nullptr;
  return mask;
}

std::shared_ptr<const Mask> MaskMaker::MakePlainly(int32_t row) {
  auto mask = std::make_shared<Mask>(static_cast<size_t>(vocabulary_.mask_words()));
  MaskWalk walk(&rows_, mask.get());
  if (!walk.Walk(trie_.whole, row) || !AddEnds(row, mask.get())) return nullptr;
  return mask;
}

bool MaskMaker::AddEnds(int32_t row, Mask* mask) {
  const Rows::Closure* closure = rows_.ClosureOf(row);
  if (closure == nullptr) return false;
  const auto set = [&](int32_t token) { SetToken(mask, token); };
  for (const Item& item : closure->tokens) set(rows_.TokenOf(item));
  if (rows_.accepts(row)) std::ranges::for_each(vocabulary_.end_tokens(), set);
  return true;
}

bool MaskMaker::Fill(int32_t row, Mask* mask) {
  MaskWalk walk(&rows_, mask);
  const int64_t nodes = NodesFrom(row);
  if (nodes < 0) return false;
  if (nodes <= std::min<int64_t>(kFewNodes, trie_.whole.size() / kFewPart))
    return walk.Walk(trie_.whole, row);
  for (int32_t a = 0; a < kAlphabets; ++a) {
    const std::optional<Run> run = RunOf(row, a);
    if (!rows_.failure().ok()) return false;
    if (run.has_value()) return FillByRun(trie_.alphabets[static_cast<size_t>(a)], *run, mask);
  }
  const int32_t base = BaseOf(row);
  if (base < 0) return base != Rows::kFailed && walk.Walk(trie_.whole, row);
  const std::shared_ptr<const Mask> known = mask_of_(base);
  if (known == nullptr) return false;
  *mask = *known;
  return walk.Change(trie_.whole, base, row);
}

// How many nodes of the whole tree begin with a byte that may come next; < 0: failed.
int64_t MaskMaker::NodesFrom(int32_t row) {
  const Rows::Closure* closure = rows_.ClosureOf(row);
  if (closure == nullptr) return -1;
  int64_t nodes = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (closure->live.Has(static_cast<uint8_t>(byte))) nodes += trie_.nodes_from[byte];
  }
  return nodes;
}

// Nothing: characters of the alphabet lead to different rows, or the rows have failed.
std::optional<MaskMaker::Step> MaskMaker::StepOf(int32_t row, int32_t alphabet) {
  const Rows::Closure* closure = rows_.ClosureOf(row);
  if (closure == nullptr) return std::nullopt;
  Step step = {Rows::kDead, {}};
  bool alive = false;
  for (const Item& item : closure->terminals) {
    const Uniform* uniform = terminals_.UniformOf(item.expression, alphabet);
    if (uniform == nullptr || !uniform->holds) return std::nullopt;
    step.exceptions = step.exceptions | uniform->exceptions;
    alive = alive || uniform->next != kNothing;
  }
  if (CountOf(step.exceptions) > kMostExceptions) return std::nullopt;
  if (!alive) return step;
  const ByteSet all = trie_.alphabets[static_cast<size_t>(alphabet)].ascii & ~step.exceptions;
  int byte = 0;
  while (!all.Has(static_cast<uint8_t>(byte))) ++byte;
  step.row = rows_.Next(row, static_cast<uint8_t>(byte));
  if (step.row < 0) return std::nullopt;
  return step;
}

std::optional<MaskMaker::Run> MaskMaker::RunOf(int32_t row, int32_t alphabet) {
  Run run;
  run.rows.push_back(row);
  while (static_cast<int32_t>(run.rows.size()) <= Alphabet::kMost) {
    const std::optional<Step> step = StepOf(run.rows.back(), alphabet);
    if (!step.has_value()) return std::nullopt;
    run.exceptions = run.exceptions | step->exceptions;
    if (CountOf(run.exceptions) > kMostExceptions) return std::nullopt;
    if (step->row == run.rows.back()) run.for_ever = true;
    if (step->row == Rows::kDead || run.for_ever) return run;
    run.rows.push_back(step->row);
  }
  return run;
}

bool MaskMaker::FillByRun(const Alphabet& alphabet, const Run& run, Mask* mask) {
  MaskWalk walk(&rows_, mask);
  const size_t most = run.for_ever ? alphabet.up_to.size() - 1 : run.rows.size() - 1;
  *mask = alphabet.up_to[most];
  if (!WalkRests(alphabet, run, &walk)) return false;
  if (!run.for_ever && !walk.Walk(alphabet.longer, run.rows[0])) return false;
  return WalkExceptions(run.rows[0], run.exceptions, &walk);
}

// Tokens of some characters of the alphabet, and then something else.
bool MaskMaker::WalkRests(const Alphabet& alphabet, const Run& run, MaskWalk* walk) {
  std::vector<MaskWalk::Start> starts;
  for (size_t k = 0; k < run.rows.size() && k <= Alphabet::kMost; ++k) {
    const bool all_others = run.for_ever && k + 1 == run.rows.size();
    starts.push_back({run.rows[k], all_others ? MaskWalk::kEveryPrefix << k : uint32_t{1} << k});
  }
  return walk->WalkAll(alphabet.rest, starts);
}

bool MaskMaker::WalkExceptions(int32_t row, const ByteSet& exceptions, MaskWalk* walk) {
  for (size_t byte = 0; byte < 128; ++byte) {
    if (exceptions.Has(static_cast<uint8_t>(byte))) walk->Clear(trie_.containing[byte]);
  }
  for (size_t byte = 0; byte < 128; ++byte) {
    if (!exceptions.Has(static_cast<uint8_t>(byte))) continue;
    if (!walk->Walk(trie_.containing[byte], row)) return false;
  }
  return true;
}

// A row whose mask comes from a run, and from which `row` differs only after a few first bytes: the
// one that most characters lead to. kDead: there is none; kFailed.
int32_t MaskMaker::BaseOf(int32_t row) {
  int32_t base = Rows::kDead;
  int32_t votes = 0;
  for (int byte = 0; byte < 128; ++byte) {
    if (!trie_.alphabets[0].ascii.Has(static_cast<uint8_t>(byte))) continue;
    const int32_t next = rows_.Next(row, static_cast<uint8_t>(byte));
    if (next == Rows::kFailed) return next;
    if (votes == 0) base = next;
    votes += next == base ? 1 : -1;
  }
  if (base < 0 || base == row) return Rows::kDead;
  const Rows::Closure* closure = rows_.ClosureOf(base);
  if (closure == nullptr) return Rows::kFailed;
  if (rows_.accepts(base) || !closure->tokens.empty()) return Rows::kDead;
  for (int32_t a = 0; a < kAlphabets; ++a) {
    const bool found = RunOf(base, a).has_value();
    if (!rows_.failure().ok()) return Rows::kFailed;
    if (found) return NodesThatDiffer(row, base) * 2 < trie_.whole.size() ? base : Rows::kDead;
  }
  return Rows::kDead;
}

int64_t MaskMaker::NodesThatDiffer(int32_t a, int32_t b) {
  int64_t nodes = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (trie_.nodes_from[byte] == 0) continue;
    const auto at = static_cast<uint8_t>(byte);
    if (rows_.Next(a, at) != rows_.Next(b, at)) nodes += trie_.nodes_from[byte];
  }
  return nodes;
}

}  // namespace thalweg::grammar
