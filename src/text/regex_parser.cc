#include "text/regex_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/char_classes.h"
#include "text/regex_program.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

using Kind = RegexNode::Kind;

bool IsAsciiAlnum(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

icu::UnicodeSet OneChar(uint32_t code_point) {
  return icu::UnicodeSet(static_cast<UChar32>(code_point), static_cast<UChar32>(code_point));
}

// What a backslash stands for: one character, or a set of them.
struct Escape {
  std::optional<uint32_t> code_point;
  icu::UnicodeSet set;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : rest_(pattern), size_(pattern.size()) {}

  Result<RegexTree> Parse() {
    TW_ASSIGN(tree_.root, Alternatives());
    if (!rest_.empty()) return Refuse("unmatched )");
    return std::move(tree_);
  }

 private:
  Status Refuse(std::string_view what) const {
    return base::Unsupported(
        fmt::format("{} at byte {} of the pattern", what, size_ - rest_.size()));
  }

  bool Take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  // The next character; callers have checked that there is one.
  uint32_t TakeChar() {
    const Utf8Step step = DecodeUtf8(rest_);
    rest_.remove_prefix(step.length);
    return step.code_point;
  }

  Result<RegexNode> SetNode(const icu::UnicodeSet& set) {
    std::vector<icu::UnicodeSet>& sets = tree_.sets;
    const auto at = std::find(sets.begin(), sets.end(), set);
    const int index = static_cast<int>(at - sets.begin());
    if (at == sets.end()) sets.push_back(set);
    if (sets.size() > kMaxRegexSets) return Refuse("too many different character sets");
    return RegexNode{.kind = Kind::kSet, .children = {}, .set = index};
  }

  Result<RegexNode> Alternatives() {
    RegexNode node{.kind = Kind::kAlternate, .children = {}};
    do {
      TW_ASSIGN(RegexNode branch, Sequence());
      node.children.push_back(std::move(branch));
    } while (Take("|"));
    return node;
  }

  Result<RegexNode> Sequence() {
    RegexNode node{.kind = Kind::kConcat, .children = {}};
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
      TW_ASSIGN(RegexNode atom, Atom());
      TW_ASSIGN(RegexNode repeated, Quantified(std::move(atom)));
      node.children.push_back(std::move(repeated));
    }
    return node;
  }

  Result<RegexNode> Atom() {
    if (Take("(")) return Group();
    if (Take("[")) return Class();
    if (Take("\\")) return EscapeAtom();
    if (Take(".")) return SetNode(OneChar('\n').complement());
    if (std::string_view("^$*+?{").find(rest_[0]) != std::string_view::npos) {
      return Refuse(fmt::format("\"{}\" has no supported meaning", rest_[0]));
    }
    return SetNode(Cased(OneChar(TakeChar())));
  }

  icu::UnicodeSet Cased(icu::UnicodeSet set) const {
    if (ignore_case_) CloseOverCase(set);
    return set;
  }

  Result<RegexNode> EscapeAtom() {
    TW_ASSIGN(Escape escape, EscapeBody());
    return SetNode(Cased(escape.code_point ? OneChar(*escape.code_point) : escape.set));
  }

  Result<RegexNode> Group() {
    if (++depth_ > kMaxRegexDepth) return Refuse("groups nested too deeply");
    const bool outer_case = ignore_case_;
    std::optional<Kind> look;
    if (Take("?!")) {
      look = Kind::kLookOut;
    } else if (Take("?=")) {
      look = Kind::kLookIn;
    } else if (Take("?i:")) {
      ignore_case_ = true;
    } else if (!Take("?:") && rest_.starts_with('?')) {
      return Refuse("this kind of group is not supported");
    }
    TW_ASSIGN(RegexNode body, Alternatives());
    if (!Take(")")) return Refuse("missing )");
    ignore_case_ = outer_case;
    --depth_;
    if (!look) return body;
    return Lookahead(body, *look);
  }

  Result<RegexNode> Lookahead(const RegexNode& body, Kind kind) const {
    const RegexNode* node = &body;
    while (node->children.size() == 1 && node->kind != Kind::kRepeat) node = &node->children[0];
    if (node->kind != Kind::kSet) {
      return Refuse("lookahead of anything but one character is not supported");
    }
    return RegexNode{.kind = kind, .children = {}, .set = node->set};
  }

  Result<RegexNode> Quantified(RegexNode atom) {
    RegexNode node{.kind = Kind::kRepeat, .children = {}};
    if (Take("*")) {
      node.max = RegexNode::kNoLimit;
    } else if (Take("+")) {
      node.min = 1;
      node.max = RegexNode::kNoLimit;
    } else if (Take("?")) {
      node.max = 1;
    } else if (Take("{")) {
      TW_TRY(Counts(node));
    } else {
      return atom;
    }
    if (Take("?")) node.lazy = true;
    if (!rest_.empty() && std::string_view("*+?{").find(rest_[0]) != std::string_view::npos) {
      return Refuse("possessive and stacked quantifiers are not supported");
    }
    node.children.push_back(std::move(atom));
    return node;
  }

  Status Counts(RegexNode& node) {
    TW_ASSIGN(node.min, Number());
    node.max = node.min;
    if (Take(",")) {
      node.max = RegexNode::kNoLimit;
      if (!rest_.starts_with('}')) {
        TW_ASSIGN(node.max, Number());
      }
    }
    if (!Take("}")) return Refuse("malformed {m,n}");
    if (node.max != RegexNode::kNoLimit && node.max < node.min) return Refuse("malformed {m,n}");
    return {};
  }

  Result<int> Number() {
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) return Refuse("malformed {m,n}");
    if (value > kMaxRegexRepeat) return Refuse("a repeat count that large is not supported");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  Result<RegexNode> Class() {
    const bool negated = Take("^");
    icu::UnicodeSet set;
    bool first = true;
    while (!Take("]")) {
      if (rest_.empty()) return Refuse("missing ]");
      TW_TRY(ClassItem(set, first));
      first = false;
    }
    if (first) return Refuse("an empty class is not supported");
    set = Cased(std::move(set));
    if (negated) set.complement();
    return SetNode(set);
  }

  Status ClassItem(icu::UnicodeSet& set, bool first) {
    if (rest_[0] == '[' || rest_.starts_with("&&")) {
      return Refuse("set operations in a class are not supported");
    }
    const bool dash = rest_[0] == '-';
    if (dash && !first && !rest_.starts_with("-]")) return Refuse("a stray - in a class");
    TW_ASSIGN(const Escape low, ClassChar());
    if (!low.code_point) {
      set.addAll(low.set);
      return {};
    }
    if (!rest_.starts_with('-') || rest_.starts_with("-]")) {
      set.add(static_cast<UChar32>(*low.code_point));
      return {};
    }
    Take("-");
    if (rest_.empty()) return Refuse("missing ]");
    TW_ASSIGN(const Escape high, ClassChar());
    if (!high.code_point || *high.code_point < *low.code_point) return Refuse("malformed range");
    set.add(static_cast<UChar32>(*low.code_point), static_cast<UChar32>(*high.code_point));
    return {};
  }

  Result<Escape> ClassChar() {
    if (Take("\\")) return EscapeBody();
    return Escape{.code_point = TakeChar(), .set = {}};
  }

  // What follows a backslash.
  Result<Escape> EscapeBody() {
    if (rest_.empty()) return Refuse("a lone backslash");
    const uint32_t c = TakeChar();
    if (!IsAsciiAlnum(c)) return Escape{.code_point = c, .set = {}};
    switch (c) {
      case 't': return Escape{.code_point = '\t', .set = {}};
      case 'n': return Escape{.code_point = '\n', .set = {}};
      case 'r': return Escape{.code_point = '\r', .set = {}};
      case 'f': return Escape{.code_point = '\f', .set = {}};
      case 'v': return Escape{.code_point = '\v', .set = {}};
      case 'u': return HexEscape(4);
      case 'x': return HexEscape(0);
      default: return SetEscape(c);
    }
  }

  Result<Escape> SetEscape(uint32_t c) {
    const bool negated = c < 'a';
    icu::UnicodeSet set;
    switch (c | 0x20) {
      case 's': set = SpaceSet(); break;
      case 'd': set = DigitSet(); break;
      case 'w': set = WordSet(); break;
      case 'p': {
        TW_ASSIGN(set, Property());
        break;
      }
      default: return Refuse(fmt::format("\\{} is not supported", static_cast<char>(c)));
    }
    if (negated) set.complement();
    return Escape{.code_point = std::nullopt, .set = std::move(set)};
  }

  Result<icu::UnicodeSet> Property() {
    if (!Take("{")) return Refuse("\\p without {");
    const bool negated = Take("^");
    const size_t length = rest_.find('}');
    if (length == std::string_view::npos) return Refuse("\\p{ without }");
    TW_ASSIGN(icu::UnicodeSet set, PropertySet(rest_.substr(0, length)));
    rest_.remove_prefix(length + 1);
    if (negated) set.complement();
    return set;
  }

  // \uXXXX with `digits` of 4, or \x{X...} with 0. Oniguruma reads \xXX as a byte, which is no
  // character of UTF-8 text beyond ASCII, so that form is refused.
  Result<Escape> HexEscape(size_t digits) {
    const bool braces = digits == 0;
    if (braces) {
      if (!Take("{")) return Refuse("\\x without {");
      digits = rest_.find('}');
    }
    if (digits == 0 || digits > 6 || digits > rest_.size()) return Refuse("malformed hex escape");
    uint32_t value = 0;
    const char* const stop = rest_.data() + digits;
    const auto [end, error] = std::from_chars(rest_.data(), stop, value, 16);
    if (error != std::errc() || end != stop || value > 0x10FFFF) {
      return Refuse("malformed hex escape");
    }
    rest_.remove_prefix(digits + (braces ? 1 : 0));
    return Escape{.code_point = value, .set = {}};
  }

  std::string_view rest_;
  size_t size_;
  RegexTree tree_;
  bool ignore_case_ = false;
  int depth_ = 0;
};

}  // namespace

Result<RegexTree> ParseRegex(std::string_view pattern) {
  if (!IsValidUtf8(pattern)) return base::InvalidArgument("the pattern is not UTF-8");
  if (pattern.size() > kMaxRegexBytes) {
    return base::Unsupported(fmt::format("the pattern has more than {} bytes", kMaxRegexBytes));
  }
  return Parser(pattern).Parse();
}

}  // namespace thalweg::text
