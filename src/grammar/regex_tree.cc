#include "grammar/regex_tree.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "grammar/code_points.h"
#include "grammar/regex_class.h"
#include "text/utf8.h"

namespace thalweg::grammar {
namespace {

struct Flags {
  bool fold_case = false;
  bool dot_is_all = false;
  bool lines = false;  // ^ and $ are also those of lines
};

struct Count {
  int64_t min;
  int64_t max;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

RegexTree Language(RegexId regex) {
  RegexTree tree;
  tree.regex = regex;
  return tree;
}

// A recursive descent whose depth is that of the groups, which has a limit.
class TreeParser {
 public:
  TreeParser(std::string_view pattern, RegexDialect dialect, CharacterEncoding encoding,
             const Limits& limits, RegexArena* arena)
      : cursor_(pattern, dialect),
        dialect_(dialect),
        encoding_(encoding),
        limits_(limits),
        arena_(arena) {}

  Result<RegexTree> Parse() {
    TW_ASSIGN(RegexTree tree, TakeChoices(0));
    if (!cursor_.done()) return RegexError(cursor_.offset(), "this ) closes no group");
    return tree;
  }

 private:
  Result<RegexTree> TakeChoices(int64_t depth);
  Result<RegexTree> TakeSequence(int64_t depth);
  Result<RegexTree> TakeAtom(int64_t depth);
  Result<RegexTree> TakeGroup(int64_t depth);
  Result<RegexTree> TakeLookAhead(int64_t depth, bool negative);
  Result<RegexTree> TakeBackslash();
  Status TakeGroupName();
  Result<bool> TakeFlags();
  Result<RegexTree> TakeCounts(RegexTree atom);
  Result<bool> TakeCount(Count* count);
  Result<bool> TakeBraces(Count* count);
  Result<int64_t> TakeNumber();
  Status CheckSize() const;

  RegexTree OneOf(icu::UnicodeSet set) const {
    if (flags_.fold_case) FoldCase(&set);
    return Language(CharacterOf(set, encoding_, arena_));
  }
  // The same for a set that is written as the text from `start` on: made once for each text.
  RegexTree OneOf(icu::UnicodeSet set, size_t start);
  RegexTree Assert(RegexTree::Assertion assertion) const {
    RegexTree tree;
    tree.kind = RegexTree::Kind::kAssertion;
    tree.assertion = assertion;
    tree.offset = cursor_.offset();
    return tree;
  }
  RegexTree Join(RegexTree::Kind kind, std::vector<RegexTree> children) const;

  RegexCursor cursor_;
  RegexDialect dialect_;
  CharacterEncoding encoding_;
  const Limits& limits_;
  RegexArena* arena_;
  Flags flags_;
  std::unordered_map<std::string, RegexId> sets_;  // by how they are written
};

RegexTree TreeParser::OneOf(icu::UnicodeSet set, size_t start) {
  std::string written(cursor_.From(start));
  written += flags_.fold_case ? 'i' : '-';
  written += flags_.dot_is_all ? 's' : '-';
  const auto [known, added] = sets_.try_emplace(std::move(written), kNothing);
  if (added) known->second = OneOf(std::move(set)).regex;
  return Language(known->second);
}

Status TreeParser::CheckSize() const {
  if (!arena_->exhausted() && arena_->size() <= limits_.expressions) return {};
  return base::OutOfRange(
      fmt::format("regular expression, byte {}: too large: more than {} expressions; shorten it",
                  cursor_.offset(), limits_.expressions));
}

// Neighbours that are languages become one.
RegexTree TreeParser::Join(RegexTree::Kind kind, std::vector<RegexTree> children) const {
  const bool concat = kind == RegexTree::Kind::kConcat;
  RegexTree tree;
  tree.kind = kind;
  std::vector<RegexId> run;
  const auto end_run = [&] {
    if (run.empty()) return;
    tree.children.push_back(Language(concat ? arena_->Concat(run) : arena_->Either(run)));
    run.clear();
  };
  for (RegexTree& child : children) {
    if (child.plain()) {
      run.push_back(child.regex);
    } else {
      end_run();
      tree.children.push_back(std::move(child));
    }
  }
  end_run();
  if (tree.children.empty()) return Language(kEmptyString);
  if (tree.children.size() > 1) return tree;
  RegexTree only = std::move(tree.children[0]);
  return only;
}

Result<RegexTree> TreeParser::TakeChoices(int64_t depth) {
  if (depth > limits_.nesting) {
    return RegexError(cursor_.offset(),
                      fmt::format("groups are nested more than {} deep", limits_.nesting));
  }
  std::vector<RegexTree> choices;
  do {
    TW_ASSIGN(RegexTree choice, TakeSequence(depth));
    choices.push_back(std::move(choice));
  } while (cursor_.TakeIf("|"));
  TW_TRY(CheckSize());
  return Join(RegexTree::Kind::kEither, std::move(choices));
}

Result<RegexTree> TreeParser::TakeSequence(int64_t depth) {
  std::vector<RegexTree> parts;
  while (!cursor_.done() && cursor_.Peek() != '|' && cursor_.Peek() != ')') {
    const bool group = cursor_.Peek() == '(';
    TW_ASSIGN(RegexTree atom, TakeAtom(depth));
    const size_t behind = cursor_.offset();
    TW_ASSIGN(RegexTree counted, TakeCounts(std::move(atom)));
    // As in ECMA-262, 22.2.1: an Assertion takes no Quantifier; a group with one in it does.
    if (counted.kind == RegexTree::Kind::kRepeat && !group &&
        counted.children[0].kind == RegexTree::Kind::kAssertion)
      return RegexError(behind, "an anchor or word border cannot be repeated; write it once");
    parts.push_back(std::move(counted));
    TW_TRY(CheckSize());
  }
  return Join(RegexTree::Kind::kConcat, std::move(parts));
}

Result<RegexTree> TreeParser::TakeAtom(int64_t depth) {
  using Assertion = RegexTree::Assertion;
  const size_t start = cursor_.offset();
  if (cursor_.TakeIf("(")) return TakeGroup(depth);
  if (cursor_.TakeIf("[")) {
    TW_ASSIGN(icu::UnicodeSet set, cursor_.TakeClass(flags_.fold_case));
    return OneOf(std::move(set), start);
  }
  if (cursor_.TakeIf(".")) return OneOf(DotSet(dialect_, flags_.dot_is_all), start);
  if (cursor_.TakeIf("^")) {
    return Assert(flags_.lines ? Assertion::kLineStart : Assertion::kTextStart);
  }
  if (cursor_.TakeIf("$")) {
    return Assert(flags_.lines ? Assertion::kLineEnd : Assertion::kTextEnd);
  }
  if (cursor_.TakeIf("\\")) return TakeBackslash();
  Count unused;
  TW_ASSIGN(const bool count, TakeCount(&unused));
  if (count) return RegexError(start, "a repetition with nothing to repeat; write \\ before it");
  const uint32_t code_point = cursor_.TakeCodePoint();
  if (flags_.fold_case) return OneOf(OneCharacter(code_point));
  return Language(CodePoints(code_point, code_point, encoding_, arena_));
}

// After a backslash.
Result<RegexTree> TreeParser::TakeBackslash() {
  using Assertion = RegexTree::Assertion;
  if (cursor_.TakeIf("b")) return Assert(Assertion::kWordBorder);
  if (cursor_.TakeIf("B")) return Assert(Assertion::kNoWordBorder);
  if (!cursor_.ecma()) {
    if (cursor_.TakeIf("A")) return Assert(Assertion::kTextStart);
    if (cursor_.TakeIf("z")) return Assert(Assertion::kTextEnd);
    if (cursor_.TakeIf("Q")) {
      const size_t end = cursor_.rest().find("\\E");
      std::vector<RegexTree> parts;
      const size_t stop = cursor_.offset() + std::min(end, cursor_.rest().size());
      while (cursor_.offset() < stop) parts.push_back(OneOf(OneCharacter(cursor_.TakeCodePoint())));
      cursor_.TakeIf("\\E");
      return Join(RegexTree::Kind::kConcat, std::move(parts));
    }
  } else if (cursor_.Peek() == 'k') {
    return RegexUnsupported(cursor_.offset(), "back-references are not regular");
  }
  const size_t start = cursor_.offset() - 1;
  TW_ASSIGN(icu::UnicodeSet set, cursor_.TakeEscape(false));
  return OneOf(std::move(set), start);
}

// After `(`.
Result<RegexTree> TreeParser::TakeGroup(int64_t depth) {
  const size_t start = cursor_.offset() - 1;
  const Flags outside = flags_;
  if (cursor_.TakeIf("?")) {
    if (cursor_.TakeIf("=")) return TakeLookAhead(depth, false);
    if (cursor_.TakeIf("!")) return TakeLookAhead(depth, true);
    if (cursor_.TakeIf("<=") || cursor_.TakeIf("<!")) {
      return RegexUnsupported(start, "look-behind is not understood; say it without");
    }
    if (cursor_.TakeIf("P<") || cursor_.TakeIf("<")) {
      TW_TRY(TakeGroupName());
    } else {
      TW_ASSIGN(const bool group, TakeFlags());
      if (!group) return Language(kEmptyString);  // the flags hold to the end of the outer group
    }
  }
  TW_ASSIGN(RegexTree inside, TakeChoices(depth + 1));
  if (!cursor_.TakeIf(")")) return RegexError(start, "this group has no end; ) is missing");
  flags_ = outside;
  return inside;
}

Result<RegexTree> TreeParser::TakeLookAhead(int64_t depth, bool negative) {
  const size_t start = cursor_.offset();
  const Flags outside = flags_;
  TW_ASSIGN(RegexTree inside, TakeChoices(depth + 1));
  if (!cursor_.TakeIf(")")) return RegexError(start, "this group has no end; ) is missing");
  flags_ = outside;
  RegexTree tree;
  tree.kind = RegexTree::Kind::kLookAhead;
  tree.negative = negative;
  tree.offset = start;
  tree.children.push_back(std::move(inside));
  return tree;
}

Status TreeParser::TakeGroupName() {
  const size_t start = cursor_.offset();
  const size_t end = cursor_.rest().find('>');
  const std::string_view name = cursor_.rest().substr(0, std::min(end, cursor_.rest().size()));
  const bool bad = name.find_first_of("()[]{}\\|*+?. ") != std::string_view::npos;
  if (end == std::string_view::npos || name.empty() || bad) {
    return RegexError(start, "the name of a group ends with >");
  }
  cursor_.Skip(end + 1);
  return {};
}

// After `(?`: flags and `:` (a group follows, true) or `)`.
Result<bool> TreeParser::TakeFlags() {
  const size_t start = cursor_.offset();
  bool value = true;
  while (!cursor_.done()) {
    const char flag = cursor_.Peek();
    cursor_.Skip(1);
    switch (flag) {
      case 'i': flags_.fold_case = value; break;
      case 's': flags_.dot_is_all = value; break;
      case 'm': flags_.lines = value; break;
      case 'U': break;  // which repetitions are lazy: the language is the same
      case '-':
        if (!value) return RegexError(start, "two - in one group of flags");
        value = false;
        break;
      case ':': return true;
      case ')': return false;
      default: return RegexError(start, "after (? come flags (i, m, s, U), : or a name");
    }
  }
  return RegexError(start, "this group has no end; ) is missing");
}

Result<RegexTree> TreeParser::TakeCounts(RegexTree atom) {
  const size_t start = cursor_.offset();
  Count count;
  TW_ASSIGN(const bool counted, TakeCount(&count));
  if (!counted) return atom;
  if (cursor_.TakeIf("+")) {
    return RegexUnsupported(start, "possessive repetition is not regular; leave the second + out");
  }
  cursor_.TakeIf("?");  // lazy: the language is the same
  const size_t second = cursor_.offset();
  Count unused;
  TW_ASSIGN(const bool twice, TakeCount(&unused));
  if (twice) return RegexError(second, "a repetition of a repetition; put the first in ( )");
  if (atom.plain()) return Language(arena_->Repeat(atom.regex, count.min, count.max));
  RegexTree tree;
  tree.kind = RegexTree::Kind::kRepeat;
  tree.min = count.min;
  tree.max = count.max;
  tree.offset = start;
  tree.children.push_back(std::move(atom));
  return tree;
}

// false, and nothing taken, where no repetition stands.
Result<bool> TreeParser::TakeCount(Count* count) {
  *count = {0, -1};
  if (cursor_.TakeIf("*")) return true;
  if (cursor_.TakeIf("+")) {
    count->min = 1;
    return true;
  }
  if (cursor_.TakeIf("?")) {
    count->max = 1;
    return true;
  }
  return TakeBraces(count);
}

// {n}, {n,}, {n,m}. Other braces are characters, as in RE2 and in ECMA 262 annex B.
Result<bool> TreeParser::TakeBraces(Count* count) {
  const std::string_view rest = cursor_.rest();
  size_t end = rest.empty() || rest[0] != '{' ? 0 : 1;
  const auto digits = [&] {
    const size_t from = end;
    while (end < rest.size() && IsDigit(rest[end])) ++end;
    return end > from;
  };
  if (end == 0 || !digits()) return false;
  if (end < rest.size() && rest[end] == ',') {
    ++end;
    digits();
  }
  if (end >= rest.size() || rest[end] != '}') return false;
  const size_t start = cursor_.offset();
  cursor_.Skip(1);
  TW_ASSIGN(count->min, TakeNumber());
  count->max = count->min;
  if (cursor_.TakeIf(",")) {
    count->max = -1;
    if (IsDigit(cursor_.Peek())) {
      TW_ASSIGN(count->max, TakeNumber());
    }
  }
  cursor_.Skip(1);
  if (count->max >= 0 && count->max < count->min) {
    return RegexError(start, "the counts of this repetition are the wrong way round");
  }
  return true;
}

Result<int64_t> TreeParser::TakeNumber() {
  const size_t start = cursor_.offset();
  int64_t value = 0;
  for (; IsDigit(cursor_.Peek()); cursor_.Skip(1)) {
    value = value * 10 + (cursor_.Peek() - '0');
    if (value > limits_.repetition) {
      return base::OutOfRange(fmt::format("regular expression, byte {}: more than {} repetitions",
                                          start, limits_.repetition));
    }
  }
  return value;
}

}  // namespace

Result<RegexTree> ParseRegexTree(std::string_view pattern, RegexDialect dialect,
                                 CharacterEncoding encoding, const Limits& limits,
                                 RegexArena* arena) {
  if (static_cast<int64_t>(pattern.size()) > limits.source_bytes) {
    return base::OutOfRange(fmt::format("a regular expression of {} bytes; the limit is {}",
                                        pattern.size(), limits.source_bytes));
  }
  const size_t valid = text::ValidUtf8Prefix(pattern);
  if (valid < pattern.size()) return RegexError(valid, "the pattern is not UTF-8 here");
  return TreeParser(pattern, dialect, encoding, limits, arena).Parse();
}

}  // namespace thalweg::grammar
