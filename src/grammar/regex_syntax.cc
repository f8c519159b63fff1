#include "grammar/regex_syntax.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/regex_class.h"
#include "grammar/regex_tree.h"

namespace thalweg::grammar {
namespace {

// What stands before a place in the text, as far as an assertion can ask.
enum class Before : uint8_t { kTextStart, kWord, kNewline, kOther };
constexpr size_t kBefores = 4;

// The language of all that follows a place up to the end of the text, for each thing that can stand
// before it.
using Follow = std::array<RegexId, kBefores>;

bool Uniform(const Follow& follow) {
  return std::ranges::all_of(follow, [&](RegexId id) { return id == follow[0]; });
}

// Makes one language of a tree, from its end to its start: an assertion is an intersection with
// what follows it. Exact for whatever does not stand under an unlimited repetition.
class TreeCompiler {
 public:
  TreeCompiler(CharacterEncoding encoding, RegexArena* arena) : arena_(arena) {
    const icu::UnicodeSet word = WordSet();
    word_ = CharacterOf(word, encoding, arena);
    newline_ = CodePoints('\n', '\n', encoding, arena);
    icu::UnicodeSet other(word);
    other.complement().remove('\n');
    other_ = CharacterOf(other, encoding, arena);
    any_text_ = AnyText(encoding, arena);
  }

  Result<Follow> Compile(const RegexTree& tree, const Follow& follow);

  // Matches that start and end anywhere.
  Result<RegexId> Search(const RegexTree& tree) {
    TW_ASSIGN(const Follow from, Compile(tree, AnyFollow()));
    return CompileLanguage(any_text_, from)[0];
  }

 private:
  static icu::UnicodeSet WordSet() {
    icu::UnicodeSet set;
    set.add('0', '9').add('A', 'Z').add('_').add('a', 'z');
    return set;
  }
  Follow AnyFollow() const { return {any_text_, any_text_, any_text_, any_text_}; }
  Follow CompileLanguage(RegexId language, const Follow& follow);
  Follow CompileAssertion(RegexTree::Assertion assertion, const Follow& follow);
  Result<Follow> CompileRepeat(const RegexTree& tree, const Follow& follow);
  Result<Follow> CompileLookAhead(const RegexTree& tree, const Follow& follow);
  Follow Union(const Follow& a, const Follow& b) {
    Follow all;
    for (size_t i = 0; i < kBefores; ++i) all[i] = arena_->Either(a[i], b[i]);
    return all;
  }

  RegexArena* arena_;
  RegexId word_;
  RegexId newline_;
  RegexId other_;
  RegexId any_text_;
  int64_t steps_ = 0;
};

// What comes after a match of the language depends on its last character, if on anything.
Follow TreeCompiler::CompileLanguage(RegexId language, const Follow& follow) {
  Follow all;
  if (Uniform(follow)) {
    all.fill(arena_->Concat(language, follow[0]));
    return all;
  }
  RegexId some = kNothing;
  const std::pair<Before, RegexId> lasts[] = {
      {Before::kWord, word_}, {Before::kNewline, newline_}, {Before::kOther, other_}};
  for (const auto& [before, last] : lasts) {
    const RegexId next = follow[static_cast<size_t>(before)];
    if (next == kNothing) continue;
    const RegexId ends = arena_->Both(language, arena_->Concat(any_text_, last));
    some = arena_->Either(some, arena_->Concat(ends, next));
  }
  for (size_t i = 0; i < kBefores; ++i) {
    all[i] = arena_->Nullable(language) ? arena_->Either(some, follow[i]) : some;
  }
  return all;
}

Follow TreeCompiler::CompileAssertion(RegexTree::Assertion assertion, const Follow& follow) {
  using Assertion = RegexTree::Assertion;
  const RegexId word = arena_->Concat(word_, any_text_);
  const RegexId line_end = arena_->Either(kEmptyString, arena_->Concat(newline_, any_text_));
  Follow all;
  for (size_t i = 0; i < kBefores; ++i) {
    const auto before = static_cast<Before>(i);
    const bool after_word = before == Before::kWord;
    const bool text_start = before == Before::kTextStart;
    RegexId condition = kAnything;
    switch (assertion) {
      case Assertion::kTextStart: condition = text_start ? kAnything : kNothing; break;
      case Assertion::kTextEnd: condition = kEmptyString; break;
      case Assertion::kLineStart:
        condition = text_start || before == Before::kNewline ? kAnything : kNothing;
        break;
      case Assertion::kLineEnd: condition = line_end; break;
      case Assertion::kWordBorder: condition = after_word ? arena_->Not(word) : word; break;
      case Assertion::kNoWordBorder: condition = after_word ? word : arena_->Not(word); break;
    }
    all[i] = arena_->Both(condition, follow[i]);
  }
  return all;
}

Result<Follow> TreeCompiler::CompileLookAhead(const RegexTree& tree, const Follow& follow) {
  TW_ASSIGN(const Follow seen, Compile(tree.children[0], AnyFollow()));
  Follow all;
  for (size_t i = 0; i < kBefores; ++i) {
    all[i] = arena_->Both(tree.negative ? arena_->Not(seen[i]) : seen[i], follow[i]);
  }
  return all;
}

// Counted out, as each time may stand before other things.
Result<Follow> TreeCompiler::CompileRepeat(const RegexTree& tree, const Follow& follow) {
  constexpr int64_t kMost = 16;
  const int64_t most = tree.max < 0 ? tree.min : tree.max;
  const bool endless = tree.max < 0;
  if (endless || most > kMost) {
    return RegexUnsupported(
        tree.offset,
        "an anchor, word border or look-ahead is repeated without end or more than 16 "
        "times; move it out of the repetition");
  }
  Follow all = follow;
  for (int64_t times = most; times > 0; --times) {
    TW_ASSIGN(const Follow one, Compile(tree.children[0], all));
    all = times > tree.min ? Union(one, follow) : one;
  }
  return all;
}

Result<Follow> TreeCompiler::Compile(const RegexTree& tree, const Follow& follow) {
  constexpr int64_t kMostSteps = 20000;  // repetitions in repetitions are counted out
  if (++steps_ > kMostSteps) {
    return RegexUnsupported(tree.offset, "too many anchors or look-aheads under repetitions");
  }
  Follow all = follow;
  switch (tree.kind) {
    case RegexTree::Kind::kLanguage: return CompileLanguage(tree.regex, follow);
    case RegexTree::Kind::kAssertion: return CompileAssertion(tree.assertion, follow);
    case RegexTree::Kind::kLookAhead: return CompileLookAhead(tree, follow);
    case RegexTree::Kind::kRepeat: return CompileRepeat(tree, follow);
    case RegexTree::Kind::kConcat:
      for (size_t i = tree.children.size(); i > 0; --i) {
        TW_ASSIGN(all, Compile(tree.children[i - 1], all));
      }
      return all;
    case RegexTree::Kind::kEither: break;
  }
  all.fill(kNothing);
  for (const RegexTree& child : tree.children) {
    TW_ASSIGN(const Follow one, Compile(child, follow));
    all = Union(all, one);
  }
  return all;
}

}  // namespace

Result<RegexId> ParseRegex(std::string_view pattern, RegexDialect dialect,
                           CharacterEncoding encoding, const Limits& limits, RegexArena* arena) {
  TW_ASSIGN(const RegexTree tree, ParseRegexTree(pattern, dialect, encoding, limits, arena));
  RegexId language = kNothing;
  if (tree.plain() && dialect == RegexDialect::kWhole) {
    language = tree.regex;
  } else {
    TreeCompiler compiler(encoding, arena);
    if (dialect == RegexDialect::kWhole) {
      TW_ASSIGN(const Follow all,
                compiler.Compile(tree, {kEmptyString, kEmptyString, kEmptyString, kEmptyString}));
      language = all[0];
    } else {
      TW_ASSIGN(language, compiler.Search(tree));
    }
  }
  // Word borders and look-aheads leave intersections behind. As an automaton the same language is
  // quicker to walk, and never looks alive where it is not.
  constexpr int64_t kMostStates = 1000;
  if (!arena->Positive(language)) {
    language = arena->Determinise(language, kMostStates).value_or(language);
  }
  if (arena->exhausted()) return base::ResourceExhausted("the regular expression is too large");
  return language;
}

}  // namespace thalweg::grammar
