// Arrays to rules.
#include <algorithm>
#include <array>

#include "grammar/schema_document.h"
#include "grammar/schema_emit.h"

namespace thalweg::grammar {
namespace {

// Items that are told apart one by one; longer arrays are counted by repetition.
constexpr int64_t kLongestChain = 64;
constexpr int64_t kMostStates = 4096;
// Rules about what an array contains; an item may be counted by any set of them.
constexpr size_t kMostContains = 4;

bool IsNever(const Symbol& symbol) { return symbol == Rules::Regex(kNothing); }

}  // namespace

Status SchemaEmitter::WriteArray(const SchemaList& schemas, int32_t rule) {
  const ArrayPlan plan = PlanArray(schemas);
  if (plan.max >= 0 && plan.min > plan.max) return {};
  if (plan.min > INT32_MAX) return {};  // no text is that long
  const std::string path = schemas.empty() ? "" : schemas.front()->path;
  if (plan.max == 0 && plan.contains.empty()) {
    rules_.AddAlternative(rule, {Rules::Regex(array_frame_.empty)});
    return {};
  }
  if (plan.unique) return WriteUnique(plan, path, rule);
  if (!plan.contains.empty()) return WriteContaining(plan, path, rule);
  return WriteItems(plan, rule);
}

Result<Symbol> SchemaEmitter::ItemSymbol(const ArrayPlan& plan, int64_t index,
                                         const std::vector<Demand>& more) {
  if (more.empty()) return SymbolOf(plan.at(index));
  DemandSet demands = plan.at(index);
  demands.insert(demands.end(), more.begin(), more.end());
  return SymbolOf(MakeDemandSet(std::move(demands)));
}

// The items of the prefix one by one, then the others by repetition.
Status SchemaEmitter::WriteItems(const ArrayPlan& plan, int32_t rule) {
  const Symbol separator = Rules::Regex(array_frame_.separator);
  const auto prefix = static_cast<int64_t>(plan.prefix.size());
  if (plan.min == 0) rules_.AddAlternative(rule, {Rules::Regex(array_frame_.empty)});
  const auto add = [&](std::vector<Symbol> inside) {
    inside.insert(inside.begin(), Rules::Regex(array_frame_.open));
    inside.push_back(Rules::Regex(array_frame_.close));
    rules_.AddAlternative(rule, std::move(inside));
  };
  std::vector<Symbol> written;
  for (int64_t i = 0; i < prefix && (plan.max < 0 || i < plan.max); ++i) {
    TW_ASSIGN(const Symbol item, ItemSymbol(plan, i));
    if (IsNever(item)) return {};
    const int32_t reached = rules_.NewRule("items");
    if (!written.empty()) written.push_back(separator);
    written.push_back(item);
    rules_.AddAlternative(reached, std::move(written));
    written = {Rules::Of(reached)};
    if (i + 1 >= plan.min) add(written);
  }
  if (plan.max >= 0 && plan.max <= prefix) return {};
  TW_ASSIGN(const Symbol item, ItemSymbol(plan, prefix));
  if (IsNever(item)) return {};
  const int64_t least = std::max<int64_t>(plan.min - prefix, 1);
  const int64_t most = plan.max < 0 ? -1 : plan.max - prefix;
  if (!written.empty()) written.push_back(separator);
  written.push_back(RepeatItems(item, least, most));
  add(std::move(written));
  return {};
}

// `least` >= 1 items with separators. Short ones one by one, left-recursively.
Symbol SchemaEmitter::RepeatItems(Symbol item, int64_t least, int64_t most) {
  const Symbol separator = Rules::Regex(array_frame_.separator);
  const int64_t chain = most < 0 ? least : most;
  if (chain > kLongestChain) return rules_.Repeat(item, least, most, &separator);
  int32_t reached = rules_.NewRule("items");
  rules_.AddAlternative(reached, {item});
  for (int64_t count = 2; count <= chain; ++count) {
    const int32_t next = rules_.NewRule("items");
    rules_.AddAlternative(next, {Rules::Of(reached), separator, item});
    if (count > least) rules_.AddAlternative(next, {Rules::Of(reached)});
    reached = next;
  }
  if (most < 0) rules_.AddAlternative(reached, {Rules::Of(reached), separator, item});
  return Rules::Of(reached);
}

namespace {

// An array that is read with an eye on `contains`: how many items there are, and how many of them
// each rule counts. Where nothing limits a count from above, the least that is asked for stands
// for more.
class ContainingArray {
 public:
  explicit ContainingArray(const ArrayPlan& plan) : plan_(plan) {}

  ListState Start() const { return ListState(plan_.contains.size() + 1, 0); }
  bool Accepts(const ListState& at) const {
    if (at[0] < plan_.min) return false;
    for (size_t i = 0; i < plan_.contains.size(); ++i) {
      const ContainsRule& rule = plan_.contains[i];
      if (at[i + 1] < rule.min || (rule.max >= 0 && at[i + 1] > rule.max)) return false;
    }
    return true;
  }
  bool Full(const ListState& at) const { return plan_.max >= 0 && at[0] >= plan_.max; }

  // What the next item is, as a set of rules that count it; or none, where it is not worth telling.
  struct Kind {
    std::vector<Demand> demands;
    ListState to;
  };
  std::vector<Kind> KindsAfter(const ListState& at) const {
    std::vector<Kind> kinds = {{{}, at}};
    const int64_t cap =
        plan_.max >= 0 ? plan_.max
                       : std::max<int64_t>(
                             {plan_.min, static_cast<int64_t>(plan_.prefix.size()), LastFrom(), 1});
    kinds[0].to[0] = std::min(at[0] + 1, cap);
    for (size_t i = 0; i < plan_.contains.size(); ++i) Split(at, i, &kinds);
    return kinds;
  }

 private:
  int64_t LastFrom() const {
    int64_t last = 0;
    for (const ContainsRule& rule : plan_.contains) last = std::max(last, rule.from);
    return last;
  }

  void Split(const ListState& at, size_t i, std::vector<Kind>* kinds) const {
    const ContainsRule& rule = plan_.contains[i];
    if (at[0] < rule.from) return;
    if (rule.max < 0 && at[i + 1] >= rule.min) return;
    const size_t count = kinds->size();
    for (size_t k = 0; k < count; ++k) {
      if (rule.max < 0 || at[i + 1] < rule.max) {
        Kind counted = (*kinds)[k];
        counted.demands.push_back(rule.items);
        ++counted.to[i + 1];
        kinds->push_back(std::move(counted));
      }
      if (rule.max >= 0) (*kinds)[k].demands.push_back(Opposite(rule.items));
    }
  }

  const ArrayPlan& plan_;
};

}  // namespace

Status SchemaEmitter::WriteContaining(const ArrayPlan& plan, const std::string& path,
                                      int32_t rule) {
  if (plan.contains.size() > kMostContains) {
    return SchemaUnsupported(path, "contains", "too many of them for one array");
  }
  const ContainingArray array(plan);
  ListSpec spec;
  spec.start = array.Start();
  spec.accepts = [&](const ListState& state) { return array.Accepts(state); };
  spec.moves = [&](const ListState& state) -> Result<std::vector<ListMove>> {
    std::vector<ListMove> moves;
    if (array.Full(state)) return moves;
    for (ContainingArray::Kind& kind : array.KindsAfter(state)) {
      TW_ASSIGN(const Symbol item, ItemSymbol(plan, state[0], kind.demands));
      moves.push_back({{kEmptyString, item}, std::move(kind.to)});
    }
    return moves;
  };
  const Status written = AddList(spec, array_frame_, kMostStates, rule, &context_);
  if (written.code() != base::Code::kUnsupported || written.message().starts_with("schema")) {
    return written;
  }
  return SchemaUnsupported(path, "contains, minItems, maxItems", written.message());
}

// Values, told apart by what has been written: the set of them.
Status SchemaEmitter::WriteUnique(const ArrayPlan& plan, const std::string& path, int32_t rule) {
  if (!plan.contains.empty()) {
    return SchemaUnsupported(path, "uniqueItems", "cannot be enforced beside contains");
  }
  std::vector<std::vector<RegexId>> texts;  // of each position, by number of the value
  const auto positions = static_cast<int64_t>(plan.prefix.size()) + 1;
  TW_ASSIGN(const std::vector<const base::Json*> values, DistinctValues(plan, path));
  for (int64_t i = 0; i < positions; ++i) {
    TW_ASSIGN(texts.emplace_back(), TextsAt(plan.at(i), values, path));
  }
  ListSpec spec;
  spec.start = {0, 0};  // items, set of values
  spec.accepts = [&](const ListState& state) { return state[0] >= plan.min; };
  spec.moves = [&](const ListState& state) -> Result<std::vector<ListMove>> {
    std::vector<ListMove> moves;
    if (plan.max >= 0 && state[0] >= plan.max) return moves;
    const auto& allowed = texts[static_cast<size_t>(std::min(state[0], positions - 1))];
    for (size_t i = 0; i < allowed.size(); ++i) {
      if ((state[1] >> i & 1) != 0) continue;
      moves.push_back(
          {{kEmptyString, Rules::Regex(allowed[i])}, {state[0] + 1, state[1] | int64_t{1} << i}});
    }
    return moves;
  };
  const Status written = AddList(spec, array_frame_, kMostStates, rule, &context_);
  if (written.code() != base::Code::kUnsupported) return written;
  return SchemaUnsupported(path, "uniqueItems", written.message());
}

}  // namespace thalweg::grammar
