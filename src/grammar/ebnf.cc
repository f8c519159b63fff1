#include "grammar/ebnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/ebnf_notations.h"
#include "text/utf8.h"

namespace thalweg::grammar {

EbnfNode EbnfGroup(EbnfNode::Kind kind, std::vector<EbnfNode> children) {
  if (children.size() == 1) {
    EbnfNode only = std::move(children[0]);
    return only;
  }
  EbnfNode node;
  node.kind = kind;
  node.children = std::move(children);
  return node;
}

EbnfNode EbnfLanguage(RegexId regex, size_t offset) {
  EbnfNode node;
  node.kind = EbnfNode::Kind::kRegex;
  node.regex = regex;
  node.offset = offset;
  return node;
}

bool TakeRepetition(EbnfText* text, EbnfNode* node) {
  struct Sign {
    std::string_view text;
    int64_t min, max;
  };
  for (const Sign& sign : {Sign{"*", 0, -1}, Sign{"+", 1, -1}, Sign{"?", 0, 1}}) {
    if (!text->TakeIf(sign.text)) continue;
    *node = EbnfRepeat(std::move(*node), sign.min, sign.max);
    return true;
  }
  return false;
}

EbnfNode EbnfRepeat(EbnfNode of, int64_t min, int64_t max) {
  EbnfNode node;
  node.kind = EbnfNode::Kind::kRepeat;
  node.min = min;
  node.max = max;
  node.children.push_back(std::move(of));
  return node;
}

Status CheckEbnfSize(const EbnfText& text, const Limits& limits, const RegexArena& arena) {
  if (!arena.exhausted() && arena.size() <= limits.expressions) return {};
  return base::OutOfRange(
      text.Error(text.offset(), fmt::format("more than {} expressions", limits.expressions))
          .message());
}

namespace {

// Makes rules of a tree. What does not call itself, directly or not, is made in place and becomes
// one expression where it is regular; what does becomes a rule.
class Resolver {
 public:
  Resolver(const EbnfTree& tree, const EbnfText& text, const Limits& limits, Rules* rules)
      : tree_(tree), text_(text), limits_(limits), rules_(rules) {}

  Result<Symbol> Resolve() {
    TW_TRY(NameRules());
    made_.resize(tree_.rules.size());
    const std::vector<std::vector<size_t>> groups = Groups();
    for (const auto& group : groups) TW_TRY(IsTerminal(group) ? MakeGroup(group) : Status());
    TW_TRY(MakeIgnored());
    for (const auto& group : groups) TW_TRY(IsTerminal(group) ? Status() : MakeGroup(group));
    const auto start = index_.find(tree_.start);
    const size_t first = start == index_.end() ? 0 : start->second;
    const Symbol parts[] = {ignored_, made_[first]};
    return rules_->Sequence(parts, "start");
  }

 private:
  Status NameRules() {
    if (tree_.rules.empty()) return text_.Error(0, "the grammar has no rule");
    for (size_t i = 0; i < tree_.rules.size(); ++i) {
      if (!index_.emplace(tree_.rules[i].name, i).second) {
        return text_.Error(tree_.rules[i].offset,
                           fmt::format("{} is defined a second time", tree_.rules[i].name));
      }
    }
    references_.resize(tree_.rules.size());
    for (size_t i = 0; i < tree_.rules.size(); ++i) TW_TRY(FindNames(tree_.rules[i].body, i));
    return {};
  }

  Status CheckDefined(const EbnfNode& name) const {
    if (index_.contains(name.name)) return {};
    return text_.Error(name.offset, fmt::format("{} is not defined", name.name));
  }

  Status FindNames(const EbnfNode& node, size_t rule) {
    if (node.kind == EbnfNode::Kind::kName) {
      TW_TRY(CheckDefined(node));
      const auto found = index_.find(node.name);
      if (tree_.rules[rule].terminal && !tree_.rules[found->second].terminal) {
        return text_.Error(node.offset, fmt::format("the terminal {} cannot use the rule {}",
                                                    tree_.rules[rule].name, node.name));
      }
      references_[rule].push_back(found->second);
    }
    for (const EbnfNode& child : node.children) TW_TRY(FindNames(child, rule));
    return {};
  }

  std::vector<std::vector<size_t>> Groups() const;
  // Terminals use terminals alone, so that a group is all of them or none.
  bool IsTerminal(const std::vector<size_t>& group) const { return tree_.rules[group[0]].terminal; }
  bool CallsItself(const std::vector<size_t>& group) const {
    const auto& calls = references_[group[0]];
    return group.size() > 1 || std::ranges::find(calls, group[0]) != calls.end();
  }

  Status MakeIgnored();
  Status MakeGroup(const std::vector<size_t>& group);
  Status AddAlternatives(size_t index);
  Result<std::vector<Symbol>> MakeAll(const std::vector<EbnfNode>& nodes, bool terminal);
  Result<Symbol> Make(const EbnfNode& node, bool terminal);
  Result<Symbol> MakeExcept(const EbnfNode& node);

  const EbnfTree& tree_;
  const EbnfText& text_;
  const Limits& limits_;
  Rules* rules_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<std::vector<size_t>> references_;  // of each rule
  std::vector<Symbol> made_;                     // of each rule
  Symbol ignored_ = Rules::Regex(kEmptyString);
};

// Strongly connected groups of rules (Tarjan 1972), those that others use before the others.
std::vector<std::vector<size_t>> Resolver::Groups() const {
  constexpr size_t kUnseen = SIZE_MAX;
  const size_t count = references_.size();
  std::vector<std::vector<size_t>> groups;
  std::vector<size_t> order(count, kUnseen);
  std::vector<size_t> low(count, 0);
  std::vector<bool> open(count, false);
  std::vector<size_t> stack;
  size_t next_order = 0;
  struct Visit {
    size_t rule;
    size_t next;  // of its references
  };
  std::vector<Visit> visits;  // in place of recursion, whose depth would be the user's
  const auto enter = [&](size_t rule) {
    order[rule] = low[rule] = next_order++;
    open[rule] = true;
    stack.push_back(rule);
    visits.push_back({rule, 0});
  };
  for (size_t root = 0; root < count; ++root) {
    if (order[root] == kUnseen) enter(root);
    while (!visits.empty()) {
      const size_t rule = visits.back().rule;
      if (visits.back().next < references_[rule].size()) {
        const size_t used = references_[rule][visits.back().next++];
        if (order[used] == kUnseen) {
          enter(used);
        } else if (open[used]) {
          low[rule] = std::min(low[rule], order[used]);
        }
        continue;
      }
      visits.pop_back();
      if (!visits.empty()) low[visits.back().rule] = std::min(low[visits.back().rule], low[rule]);
      if (low[rule] != order[rule]) continue;
      groups.emplace_back();
      while (groups.back().empty() || groups.back().back() != rule) {
        groups.back().push_back(stack.back());
        open[stack.back()] = false;
        stack.pop_back();
      }
    }
  }
  return groups;
}

Status Resolver::MakeIgnored() {
  std::vector<Symbol> choices;
  for (const EbnfNode& node : tree_.ignored) {
    if (node.kind == EbnfNode::Kind::kName) TW_TRY(CheckDefined(node));
    TW_ASSIGN(const Symbol choice, Make(node, true));
    if (choice.kind != Symbol::Kind::kRegex) {
      return text_.Error(node.offset, "what is ignored must be terminals");
    }
    choices.push_back(choice);
  }
  if (!choices.empty()) ignored_ = rules_->Repeat(rules_->Choice(choices), 0, -1);
  return {};
}

Status Resolver::MakeGroup(const std::vector<size_t>& group) {
  const EbnfRule& first = tree_.rules[group[0]];
  if (!CallsItself(group)) {
    TW_ASSIGN(made_[group[0]], Make(first.body, first.terminal));
  } else {
    if (first.terminal) {
      return text_.Error(first.offset, fmt::format("the terminal {} uses itself", first.name));
    }
    for (const size_t i : group) made_[i] = Rules::Of(rules_->NewRule(tree_.rules[i].name));
    for (const size_t i : group) TW_TRY(AddAlternatives(i));
  }
  if (!rules_->regexes().exhausted() && rules_->regexes().size() <= limits_.expressions) return {};
  return base::OutOfRange("the grammar is too large: its rules grow when they are put together");
}

Status Resolver::AddAlternatives(size_t index) {
  const EbnfNode& body = tree_.rules[index].body;
  const bool choice = body.kind == EbnfNode::Kind::kChoice;
  for (size_t i = 0; i < (choice ? body.children.size() : 1); ++i) {
    const EbnfNode& one = choice ? body.children[i] : body;
    std::vector<Symbol> symbols;
    if (one.kind == EbnfNode::Kind::kSequence) {
      TW_ASSIGN(symbols, MakeAll(one.children, false));
    } else {
      TW_ASSIGN(const Symbol symbol, Make(one, false));
      symbols.push_back(symbol);
    }
    rules_->AddAlternative(made_[index].id, rules_->Joined(symbols));
  }
  return {};
}

Result<std::vector<Symbol>> Resolver::MakeAll(const std::vector<EbnfNode>& nodes, bool terminal) {
  std::vector<Symbol> symbols;
  for (const EbnfNode& node : nodes) {
    TW_ASSIGN(const Symbol symbol, Make(node, terminal));
    symbols.push_back(symbol);
  }
  return symbols;
}

// In a rule, what is ignored may follow each terminal.
Result<Symbol> Resolver::Make(const EbnfNode& node, bool terminal) {
  const auto ended = [&](Symbol symbol) {
    const Symbol parts[] = {symbol, ignored_};
    return terminal ? symbol : rules_->Sequence(parts);
  };
  switch (node.kind) {
    case EbnfNode::Kind::kRegex: return ended(Rules::Regex(node.regex));
    case EbnfNode::Kind::kExcept: {
      TW_ASSIGN(const Symbol rest, MakeExcept(node));
      return ended(rest);
    }
    case EbnfNode::Kind::kName: {
      const size_t used = index_.at(node.name);
      return tree_.rules[used].terminal ? ended(made_[used]) : made_[used];
    }
    case EbnfNode::Kind::kRepeat: {
      TW_ASSIGN(const Symbol of, Make(node.children[0], terminal));
      return rules_->Repeat(of, node.min, node.max);
    }
    default: break;
  }
  TW_ASSIGN(const std::vector<Symbol> parts, MakeAll(node.children, terminal));
  return node.kind == EbnfNode::Kind::kSequence ? rules_->Sequence(parts) : rules_->Choice(parts);
}

Result<Symbol> Resolver::MakeExcept(const EbnfNode& node) {
  TW_ASSIGN(const Symbol all, Make(node.children[0], true));
  TW_ASSIGN(const Symbol without, Make(node.children[1], true));
  const auto regular = Symbol::Kind::kRegex;
  if (all.kind != regular || without.kind != regular) {
    return text_.Unsupported(node.offset, "A - B is understood where neither calls itself");
  }
  RegexArena& arena = rules_->regexes();
  const RegexId rest = arena.Both(all.id, arena.Not(without.id));
  constexpr int64_t kMostStates = 1000;
  return Rules::Regex(arena.Determinise(rest, kMostStates).value_or(rest));
}

// Whether the first rule is `name ::=` (true) or `name:` (false).
bool IsGbnf(EbnfText text) {
  if (!text.SkipSpace().ok()) return true;
  if (text.Peek() == '%' || text.Peek() == '?' || text.Peek() == '!') return false;
  const bool named = !text.TakeName().empty();
  if (!text.SkipSpace().ok() || !named) return true;
  return text.rest().starts_with("::=") || (text.Peek() != ':' && text.Peek() != '.');
}

}  // namespace

Result<Symbol> AddEbnf(std::string_view source, const Limits& limits, Rules* rules) {
  if (static_cast<int64_t>(source.size()) > limits.source_bytes) {
    return base::OutOfRange(
        fmt::format("a grammar of {} bytes; the limit is {}", source.size(), limits.source_bytes));
  }
  const EbnfText text(source, limits);
  const size_t valid = text::ValidUtf8Prefix(source);
  if (valid < source.size()) return text.Error(valid, "the grammar is not UTF-8 here");
  RegexArena* const arena = &rules->regexes();
  TW_ASSIGN(const EbnfTree tree,
            IsGbnf(text) ? ParseGbnf(text, limits, arena) : ParseLark(text, limits, arena));
  return Resolver(tree, text, limits, rules).Resolve();
}

Result<Rules> ParseEbnf(std::string_view source, const Limits& limits) {
  Rules rules;
  rules.regexes().LimitWork(kCompileWork);
  TW_ASSIGN(const Symbol start, AddEbnf(source, limits, &rules));
  return FinishRules(start, limits, std::move(rules));
}

}  // namespace thalweg::grammar
