// A subset of Lark's notation (lark-parser.readthedocs.io/en/stable/grammar.html), read as a
// context-free grammar over bytes: no terminal is preferred to another one.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/ebnf_common.h"
#include "grammar/ebnf_notations.h"
#include "grammar/regex_class.h"
#include "grammar/regex_tree.h"
#include "text/utf8.h"

namespace thalweg::grammar {
namespace {

constexpr CharacterEncoding kUtf8 = CharacterEncoding::kUtf8;

bool IsTerminalName(std::string_view name) {
  const size_t first = name.find_first_not_of('_');
  return first != std::string_view::npos && name[first] >= 'A' && name[first] <= 'Z';
}

class LarkParser {
 public:
  LarkParser(EbnfText text, const Limits& limits, RegexArena* arena)
      : text_(text), limits_(limits), arena_(arena) {}

  Result<EbnfTree> Parse() {
    tree_.start = "start";
    TW_TRY(text_.SkipSpace());
    while (!text_.done()) {
      TW_TRY(text_.Peek() == '%' ? TakeDirective() : TakeRule());
      TW_TRY(text_.SkipSpace());
    }
    return std::move(tree_);
  }

 private:
  Status TakeRule();
  Status TakeDirective();
  Status TakeImport(size_t start);
  Status ImportCommon(size_t offset);
  Status Import(const std::string& name, const std::string& as, size_t offset);
  bool TakeColon(EbnfRule* rule, bool* priority);
  bool AtRule();
  Result<EbnfNode> TakeChoices(int64_t depth);
  Result<EbnfNode> TakeSequence(int64_t depth);
  Result<EbnfNode> TakeCounted(int64_t depth);
  Status TakeTimes(EbnfNode* node);
  Result<EbnfNode> TakeAtom(int64_t depth);
  Result<EbnfNode> TakeLiteral(size_t start);
  Result<EbnfNode> TakePattern(size_t start);
  Result<EbnfNode> TakeUpTo(char close, size_t start, int64_t depth);

  EbnfText text_;
  const Limits& limits_;
  RegexArena* arena_;
  EbnfTree tree_;
  std::vector<std::string> common_;  // names that can be imported, once they have been read
};

// Marks, a name, a priority and a colon; false and anywhere in the text if that is not what is
// here.
bool LarkParser::TakeColon(EbnfRule* rule, bool* priority) {
  while (text_.Peek() == '?' || text_.Peek() == '!') text_.Skip(1);
  rule->name = text_.TakeName();
  if (rule->name.empty()) return false;
  while (text_.Peek() == ' ' || text_.Peek() == '\t') text_.Skip(1);
  if (text_.Peek() == '.' && text_.Peek(1) != '.') {
    text_.Skip(1);
    text_.TakeIf("-");
    if (!text_.TakeNumber().ok()) return false;
    *priority = true;
  }
  while (text_.Peek() == ' ' || text_.Peek() == '\t') text_.Skip(1);
  return text_.TakeIf(":");
}

bool LarkParser::AtRule() {
  const size_t before = text_.offset();
  EbnfRule unused;
  bool priority = false;
  const bool rule = TakeColon(&unused, &priority);
  text_.set_offset(before);
  return rule;
}

Status LarkParser::TakeRule() {
  EbnfRule rule;
  rule.offset = text_.offset();
  bool priority = false;
  if (!TakeColon(&rule, &priority)) {
    const bool used = text_.Peek() == '{';
    return used ? text_.Unsupported(text_.offset(), "templates are not understood")
                : text_.Error(rule.offset, "a rule is expected here: name: ...");
  }
  rule.terminal = IsTerminalName(rule.name);
  if (rule.terminal && priority) {  // of a rule it says which tree is taken, not which texts
    return text_.Unsupported(rule.offset,
                             "no terminal is preferred to another; leave priorities out");
  }
  TW_ASSIGN(rule.body, TakeChoices(0));
  tree_.rules.push_back(std::move(rule));
  return {};
}

Status LarkParser::TakeDirective() {
  const size_t start = text_.offset();
  text_.Skip(1);
  const std::string name = text_.TakeName();
  TW_TRY(text_.SkipSpace());
  if (name == "import") return TakeImport(start);
  if (name != "ignore") {
    return text_.Unsupported(start, "of the directives %ignore and %import common are understood");
  }
  TW_ASSIGN(EbnfNode node, TakeChoices(0));
  EbnfRule rule;  // a terminal, so that what it uses is checked as for others
  rule.name = fmt::format("%ignore {}", tree_.ignored.size());
  rule.terminal = true;
  rule.offset = start;
  rule.body = std::move(node);
  EbnfNode use;
  use.kind = EbnfNode::Kind::kName;
  use.name = rule.name;
  use.offset = start;
  tree_.rules.push_back(std::move(rule));
  tree_.ignored.push_back(std::move(use));
  return {};
}

// After `%import`: common.NAME, common.NAME -> OTHER, common (NAME, NAME).
Status LarkParser::TakeImport(size_t start) {
  if (!text_.TakeIf("common")) {
    return text_.Unsupported(start, "only what is in `common` can be imported");
  }
  while (text_.Peek() == ' ') text_.Skip(1);
  if (text_.TakeIf(".")) {
    const std::string name = text_.TakeName();
    TW_TRY(text_.SkipSpace());
    std::string as = name;
    if (text_.TakeIf("->")) {
      TW_TRY(text_.SkipSpace());
      as = text_.TakeName();
    }
    return Import(name, as, start);
  }
  if (!text_.TakeIf("(")) return text_.Error(text_.offset(), ". or ( expected after common");
  do {
    TW_TRY(text_.SkipSpace());
    const std::string name = text_.TakeName();
    TW_TRY(Import(name, name, start));
    TW_TRY(text_.SkipSpace());
  } while (text_.TakeIf(","));
  return text_.TakeIf(")") ? Status() : text_.Error(text_.offset(), ") expected");
}

void Scope(EbnfNode* node) {
  if (node->kind == EbnfNode::Kind::kName) node->name = "common." + node->name;
  for (EbnfNode& child : node->children) Scope(&child);
}

// All terminals of the list come along once, under names that a grammar cannot write.
Status LarkParser::ImportCommon(size_t offset) {
  if (!common_.empty()) return {};
  TW_ASSIGN(EbnfTree common, LarkParser(EbnfText(kLarkCommon, limits_), limits_, arena_).Parse());
  for (EbnfRule& rule : common.rules) {
    common_.push_back(rule.name);
    Scope(&rule.body);
    rule.name = "common." + rule.name;
    rule.offset = offset;
    tree_.rules.push_back(std::move(rule));
  }
  return {};
}

Status LarkParser::Import(const std::string& name, const std::string& as, size_t offset) {
  TW_TRY(ImportCommon(offset));
  if (std::ranges::find(common_, name) == common_.end() || !IsTerminalName(as)) {
    return text_.Error(offset, fmt::format("there is no terminal {} in common", name));
  }
  EbnfRule alias;
  alias.name = as;
  alias.terminal = true;
  alias.offset = offset;
  alias.body.kind = EbnfNode::Kind::kName;
  alias.body.name = "common." + name;
  tree_.rules.push_back(std::move(alias));
  return {};
}

Result<EbnfNode> LarkParser::TakeChoices(int64_t depth) {
  TW_TRY(text_.CheckDepth(depth));
  std::vector<EbnfNode> choices;
  do {
    TW_ASSIGN(EbnfNode choice, TakeSequence(depth));
    choices.push_back(std::move(choice));
  } while (text_.TakeIf("|"));
  return EbnfGroup(EbnfNode::Kind::kChoice, std::move(choices));
}

Result<EbnfNode> LarkParser::TakeSequence(int64_t depth) {
  constexpr std::string_view kEnds = "|)]%";
  std::vector<EbnfNode> parts;
  TW_TRY(text_.SkipSpace());
  while (!text_.done() && kEnds.find(text_.Peek()) == std::string_view::npos && !AtRule()) {
    if (text_.TakeIf("->")) {  // names a branch of the tree: of no meaning to the language
      TW_TRY(text_.SkipSpace());
      if (text_.TakeName().empty()) return text_.Error(text_.offset(), "a name expected after ->");
      TW_TRY(text_.SkipSpace());
      break;
    }
    TW_ASSIGN(EbnfNode part, TakeCounted(depth));
    parts.push_back(std::move(part));
    TW_TRY(CheckEbnfSize(text_, limits_, *arena_));
  }
  return EbnfGroup(EbnfNode::Kind::kSequence, std::move(parts));
}

Result<EbnfNode> LarkParser::TakeCounted(int64_t depth) {
  TW_ASSIGN(EbnfNode node, TakeAtom(depth));
  while (text_.Peek() == ' ' || text_.Peek() == '\t') text_.Skip(1);
  for (int64_t times = 0;; ++times) {
    TW_TRY(text_.CheckDepth(times));
    if (text_.TakeIf("~")) {
      node = EbnfRepeat(std::move(node), 0, 0);
      TW_TRY(TakeTimes(&node));
    } else if (!TakeRepetition(&text_, &node)) {
      TW_TRY(text_.SkipSpace());
      return node;
    }
  }
}

// After `~`: n or n..m.
Status LarkParser::TakeTimes(EbnfNode* node) {
  TW_TRY(text_.SkipSpace());
  const size_t start = text_.offset();
  TW_ASSIGN(node->min, text_.TakeNumber());
  node->max = node->min;
  if (text_.TakeIf("..")) {
    TW_ASSIGN(node->max, text_.TakeNumber());
  }
  if (node->max < node->min) return text_.Error(start, "the counts are the wrong way round");
  return {};
}

Result<EbnfNode> LarkParser::TakeAtom(int64_t depth) {
  const size_t start = text_.offset();
  if (text_.TakeIf("\"")) return TakeLiteral(start);
  if (text_.TakeIf("/")) return TakePattern(start);
  if (text_.TakeIf("(")) return TakeUpTo(')', start, depth);
  if (text_.TakeIf("[")) {
    TW_ASSIGN(EbnfNode inside, TakeUpTo(']', start, depth));
    return EbnfRepeat(std::move(inside), 0, 1);
  }
  EbnfNode node;
  node.kind = EbnfNode::Kind::kName;
  node.offset = start;
  node.name = text_.TakeName();
  if (node.name.empty()) {
    return text_.Error(start, "a literal, /pattern/, name or group is expected here");
  }
  if (text_.Peek() == '{') return text_.Unsupported(start, "templates are not understood");
  return node;
}

Result<EbnfNode> LarkParser::TakeUpTo(char close, size_t start, int64_t depth) {
  TW_ASSIGN(EbnfNode inside, TakeChoices(depth + 1));
  if (!text_.TakeIf(std::string_view(&close, 1))) {
    return text_.Error(start, fmt::format("this group has no end; {} is missing", close));
  }
  return inside;
}

// After the opening quote: a literal, with `i` in any case, or one end of "a".."z".
Result<EbnfNode> LarkParser::TakeLiteral(size_t start) {
  TW_ASSIGN(const std::string literal, text_.TakeQuoted('"'));
  if (text_.TakeIf("i")) {
    std::vector<RegexId> parts;
    for (std::string_view rest = literal; !rest.empty();) {
      const auto [code_point, length] = text::DecodeWellFormed(rest);
      rest.remove_prefix(length);
      icu::UnicodeSet set = OneCharacter(code_point);
      FoldCase(&set);
      parts.push_back(CharacterOf(set, kUtf8, arena_));
    }
    return EbnfLanguage(arena_->Concat(parts), start);
  }
  if (!text_.TakeIf("..")) return EbnfLanguage(arena_->Literal(literal), start);
  if (!text_.TakeIf("\"")) return text_.Error(text_.offset(), "\" expected after ..");
  TW_ASSIGN(const std::string last, text_.TakeQuoted('"'));
  const auto single = [](std::string_view one) {
    return !one.empty() && text::DecodeWellFormed(one).second == one.size();
  };
  if (!single(literal) || !single(last) ||
      text::DecodeWellFormed(literal).first > text::DecodeWellFormed(last).first) {
    return text_.Error(start, "a range goes from one character to a later one");
  }
  return EbnfLanguage(CodePoints(text::DecodeWellFormed(literal).first,
                                 text::DecodeWellFormed(last).first, kUtf8, arena_),
                      start);
}

// After the slash.
Result<EbnfNode> LarkParser::TakePattern(size_t start) {
  const std::string_view rest = text_.rest();
  size_t end = 0;
  while (end < rest.size() && rest[end] != '/' && rest[end] != '\n')
    end += rest[end] == '\\' ? 2 : 1;
  if (end >= rest.size() || rest[end] != '/') return text_.Error(start, "this pattern has no end");
  std::string pattern(rest.substr(0, end));
  text_.Skip(end + 1);
  std::string flags;
  for (; std::isalpha(static_cast<unsigned char>(text_.Peek())) != 0; text_.Skip(1)) {
    const char flag = text_.Peek();
    if (flag == 'i' || flag == 's' || flag == 'm') {
      flags += flag;
    } else if (flag != 'u') {
      return text_.Unsupported(text_.offset(), "of the flags i, s, m and u are understood");
    }
  }
  if (!flags.empty()) pattern = "(?" + flags + ":" + pattern + ")";
  const auto tree = ParseRegexTree(pattern, RegexDialect::kWhole, kUtf8, limits_, arena_);
  if (!tree.ok()) return text_.Error(start, tree.status().message());
  if (!tree->plain()) {
    return text_.Unsupported(start,
                             "anchors and look-around see beyond their terminal; leave them "
                             "out");
  }
  return EbnfLanguage(tree->regex, start);
}

}  // namespace

Result<EbnfTree> ParseLark(EbnfText text, const Limits& limits, RegexArena* arena) {
  return LarkParser(text, limits, arena).Parse();
}

}  // namespace thalweg::grammar
