// GBNF (llama.cpp) and the notation of the W3C (XML 1.0 section 6), which agree on most things.
#include <utility>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/ebnf_notations.h"

namespace thalweg::grammar {
namespace {

constexpr CharacterEncoding kUtf8 = CharacterEncoding::kUtf8;

class GbnfParser {
 public:
  GbnfParser(EbnfText text, const Limits& limits, RegexArena* arena)
      : text_(text), limits_(limits), arena_(arena) {}

  Result<EbnfTree> Parse() {
    EbnfTree tree;
    tree.start = "root";
    TW_TRY(text_.SkipSpace());
    while (!text_.done()) {
      EbnfRule rule;
      rule.offset = text_.offset();
      rule.name = text_.TakeName();
      if (rule.name.empty() || !TakeDefines()) {
        return text_.Error(rule.offset, "a rule is expected here: name ::= ...");
      }
      TW_ASSIGN(rule.body, TakeChoices(0));
      tree.rules.push_back(std::move(rule));
    }
    return tree;
  }

 private:
  bool TakeDefines() {
    const size_t before = text_.offset();
    if (text_.SkipSpace().ok() && text_.TakeIf("::=")) return true;
    text_.set_offset(before);
    return false;
  }
  bool AtRule() {
    const size_t before = text_.offset();
    const bool rule = !text_.TakeName().empty() && TakeDefines();
    text_.set_offset(before);
    return rule;
  }

  Result<EbnfNode> TakeChoices(int64_t depth) {
    TW_TRY(text_.CheckDepth(depth));
    std::vector<EbnfNode> choices;
    do {
      TW_ASSIGN(EbnfNode choice, TakeSequence(depth));
      choices.push_back(std::move(choice));
    } while (text_.TakeIf("|"));
    return EbnfGroup(EbnfNode::Kind::kChoice, std::move(choices));
  }

  Result<EbnfNode> TakeSequence(int64_t depth) {
    std::vector<EbnfNode> parts;
    TW_TRY(text_.SkipSpace());
    while (!text_.done() && text_.Peek() != '|' && text_.Peek() != ')' && !AtRule()) {
      TW_ASSIGN(EbnfNode part, TakeCounted(depth));
      if (text_.TakeIf("-")) {
        TW_ASSIGN(part, TakeExcept(std::move(part), depth));
      }
      parts.push_back(std::move(part));
      TW_TRY(CheckEbnfSize(text_, limits_, *arena_));
    }
    return EbnfGroup(EbnfNode::Kind::kSequence, std::move(parts));
  }

  Result<EbnfNode> TakeExcept(EbnfNode all, int64_t depth) {
    EbnfNode node;
    node.kind = EbnfNode::Kind::kExcept;
    node.offset = all.offset;
    TW_TRY(text_.SkipSpace());
    TW_ASSIGN(EbnfNode without, TakeCounted(depth));
    node.children.push_back(std::move(all));
    node.children.push_back(std::move(without));
    return node;
  }

  Result<EbnfNode> TakeCounted(int64_t depth) {
    TW_ASSIGN(EbnfNode node, TakeAtom(depth));
    TW_TRY(text_.SkipSpace());
    for (int64_t times = 0;; ++times) {
      TW_TRY(text_.CheckDepth(times));
      const size_t at = text_.offset();
      if (text_.TakeIf("{")) {
        node = EbnfRepeat(std::move(node), 0, 0);
        TW_TRY(text_.TakeCounts(&node));
      } else if (!TakeRepetition(&text_, &node)) {
        return node;
      }
      node.offset = at;
      TW_TRY(text_.SkipSpace());
    }
  }

  Result<EbnfNode> TakeAtom(int64_t depth) {
    const size_t start = text_.offset();
    for (const char quote : {'"', '\''}) {
      if (!text_.TakeIf(std::string_view(&quote, 1))) continue;
      TW_ASSIGN(const std::string literal, text_.TakeQuoted(quote));
      return EbnfLanguage(arena_->Literal(literal), start);
    }
    if (text_.TakeIf("[")) {
      TW_ASSIGN(const icu::UnicodeSet set, text_.TakeClass());
      return EbnfLanguage(CharacterOf(set, kUtf8, arena_), start);
    }
    if (text_.AtHexCharacter()) {
      TW_ASSIGN(const uint32_t code_point, text_.TakeHexCharacter());
      return EbnfLanguage(CodePoints(code_point, code_point, kUtf8, arena_), start);
    }
    if (text_.TakeIf(".")) return EbnfLanguage(AnyCharacter(kUtf8, arena_), start);
    if (text_.TakeIf("(")) return TakeGroup(start, depth);
    EbnfNode node;
    node.kind = EbnfNode::Kind::kName;
    node.offset = start;
    node.name = text_.TakeName();
    if (!node.name.empty()) return node;
    if (text_.Peek() == '<') return text_.Unsupported(start, "tokens by name are not understood");
    return text_.Error(start, "a literal, class, name or group is expected here");
  }

  Result<EbnfNode> TakeGroup(size_t start, int64_t depth) {
    if (text_.Peek() == '=') return text_.Unsupported(start, "look-ahead is not understood");
    TW_ASSIGN(EbnfNode inside, TakeChoices(depth + 1));
    if (!text_.TakeIf(")")) return text_.Error(start, "this group has no end; ) is missing");
    return inside;
  }

  EbnfText text_;
  const Limits& limits_;
  RegexArena* arena_;
};

}  // namespace

Result<EbnfTree> ParseGbnf(EbnfText text, const Limits& limits, RegexArena* arena) {
  return GbnfParser(text, limits, arena).Parse();
}

}  // namespace thalweg::grammar
