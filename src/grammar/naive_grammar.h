// A context-free grammar over a small alphabet, drawn from bytes, and the obvious recogniser of its
// language and of the beginnings of its texts: for tests. Shares nothing with the parser.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/rules.h"

namespace thalweg::grammar {

// Texts are of bytes, and of tokens taken as a whole: kNaiveToken + token.
inline constexpr int32_t kNaiveToken = 256;
using NaiveText = std::vector<int32_t>;

struct NaiveSymbol {
  int32_t rule = -1;     // >= 0: a rule; otherwise
  int32_t token = -1;    // >= 0: a token; otherwise
  std::string set = {};  // min to max of these bytes (max < 0: without limit)
  int32_t min = 1;
  int32_t max = 1;

  bool Has(int32_t element) const {
    if (token >= 0) return element == kNaiveToken + token;
    return element < kNaiveToken && set.find(static_cast<char>(element)) != std::string::npos;
  }
};

// The start is rule 0.
struct NaiveGrammar {
  std::vector<std::vector<std::vector<NaiveSymbol>>> rules = {};

  Rules ToRules() const;
  std::string ToString() const;
};

// What `grammar` says about one text of at most 60 elements: by iteration to the least fixpoint.
class NaiveRecogniser {
 public:
  NaiveRecogniser(const NaiveGrammar& grammar, NaiveText text);
  bool IsText() const { return (ends_[0][0] >> text_.size() & 1) != 0; }
  // Whether something can be appended so that it is one; nothing included.
  bool IsBeginning() const { return begins_[0][0]; }

 private:
  using Ends = uint64_t;  // bit j: a match ends before element j
  Ends EndsOf(const NaiveSymbol& symbol, size_t at) const;
  bool BeginsAt(const NaiveSymbol& symbol, size_t at) const;
  bool Productive(const std::vector<NaiveSymbol>& alternative) const;
  bool Look(const std::vector<NaiveSymbol>& alternative, size_t rule, size_t at);
  bool Repeat(const std::function<bool(size_t rule, const std::vector<NaiveSymbol>&)>& look);

  const NaiveGrammar& grammar_;
  const NaiveText text_;
  std::vector<bool> productive_;
  std::vector<std::vector<Ends>> ends_;    // by rule and first element
  std::vector<std::vector<bool>> begins_;  // the rest of the text begins one of the rule's
};

// Takes choices from bytes, and 0 when they are used up.
class NaiveDraws {
 public:
  explicit NaiveDraws(std::string_view bytes) : bytes_(bytes) {}
  int32_t Below(int32_t n) {
    if (bytes_.empty()) return 0;
    const auto drawn = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return drawn % n;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

// Recursive in every way, nullable, ambiguous, empty: as the draws fall. Tokens are among `tokens`.
NaiveGrammar DrawGrammar(NaiveDraws* draws, const std::vector<int32_t>& tokens);

inline Rules NaiveGrammar::ToRules() const {
  Rules made;
  for (size_t i = 0; i < rules.size(); ++i) made.NewRule("r" + std::to_string(i));
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const auto& alternative : rules[i]) {
      std::vector<Symbol> symbols;
      for (const NaiveSymbol& symbol : alternative) {
        if (symbol.rule >= 0) {
          symbols.push_back(Rules::Of(symbol.rule));
        } else if (symbol.token >= 0) {
          symbols.push_back(Rules::Token(symbol.token));
        } else {
          ByteSet set;
          for (const char c : symbol.set) set.Add(static_cast<uint8_t>(c));
          RegexArena& arena = made.regexes();
          symbols.push_back(Rules::Regex(arena.Repeat(arena.Bytes(set), symbol.min, symbol.max)));
        }
      }
      made.AddAlternative(static_cast<int32_t>(i), std::move(symbols));
    }
  }
  made.set_start(0);
  return made;
}

inline std::string NaiveGrammar::ToString() const {
  std::string text;
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const auto& alternative : rules[i]) {
      text += "r" + std::to_string(i) + " ::=";
      for (const NaiveSymbol& symbol : alternative) {
        if (symbol.rule >= 0) {
          text += " r" + std::to_string(symbol.rule);
        } else if (symbol.token >= 0) {
          text += " <" + std::to_string(symbol.token) + ">";
        } else {
          text += " [" + symbol.set + "]{" + std::to_string(symbol.min) + "," +
                  std::to_string(symbol.max) + "}";
        }
      }
      text += "\n";
    }
  }
  return text;
}

inline bool NaiveRecogniser::Repeat(
    const std::function<bool(size_t, const std::vector<NaiveSymbol>&)>& look) {
  bool changed = false;
  for (size_t rule = 0; rule < grammar_.rules.size(); ++rule) {
    for (const auto& alternative : grammar_.rules[rule]) {
      changed = look(rule, alternative) || changed;
    }
  }
  return changed;
}

inline NaiveRecogniser::NaiveRecogniser(const NaiveGrammar& grammar, NaiveText text)
    : grammar_(grammar),
      text_(std::move(text)),
      productive_(grammar.rules.size()),
      ends_(grammar.rules.size(), std::vector<Ends>(text_.size() + 1)),
      begins_(grammar.rules.size(), std::vector<bool>(text_.size() + 1)) {
  while (Repeat([&](size_t rule, const auto& alternative) {
    const bool is_new = !productive_[rule] && Productive(alternative);
    if (is_new) productive_[rule] = true;
    return is_new;
  })) {
  }
  while (Repeat([&](size_t rule, const auto& alternative) {
    bool changed = false;
    for (size_t at = 0; at <= text_.size(); ++at) changed = Look(alternative, rule, at) || changed;
    return changed;
  })) {
  }
}

inline bool NaiveRecogniser::Productive(const std::vector<NaiveSymbol>& alternative) const {
  for (const NaiveSymbol& symbol : alternative) {
    if (symbol.rule >= 0 && !productive_[static_cast<size_t>(symbol.rule)]) return false;
    if (symbol.rule < 0 && symbol.token < 0 && symbol.set.empty() && symbol.min > 0) return false;
  }
  return true;
}

inline NaiveRecogniser::Ends NaiveRecogniser::EndsOf(const NaiveSymbol& symbol, size_t at) const {
  if (symbol.rule >= 0) return ends_[static_cast<size_t>(symbol.rule)][at];
  Ends ends = symbol.min == 0 ? Ends{1} << at : 0;
  for (int32_t count = 1; symbol.max < 0 || count <= symbol.max; ++count) {
    if (at == text_.size() || !symbol.Has(text_[at])) break;
    ++at;
    if (count >= symbol.min) ends |= Ends{1} << at;
  }
  return ends;
}

// Whether the rest of the text begins a text of the symbol, which is productive.
inline bool NaiveRecogniser::BeginsAt(const NaiveSymbol& symbol, size_t at) const {
  if (at == text_.size()) return true;
  if (symbol.rule >= 0) return begins_[static_cast<size_t>(symbol.rule)][at];
  const size_t left = text_.size() - at;
  if (symbol.max >= 0 && left > static_cast<size_t>(symbol.max)) return false;
  for (; at < text_.size(); ++at) {
    if (!symbol.Has(text_[at])) return false;
  }
  return true;
}

inline bool NaiveRecogniser::Look(const std::vector<NaiveSymbol>& alternative, size_t rule,
                                  size_t at) {
  if (!Productive(alternative)) return false;
  Ends ends = Ends{1} << at;
  bool begins = false;
  for (const NaiveSymbol& symbol : alternative) {
    Ends after = 0;
    for (size_t j = at; j <= text_.size(); ++j) {
      if ((ends >> j & 1) == 0) continue;
      begins = begins || BeginsAt(symbol, j);
      after |= EndsOf(symbol, j);
    }
    ends = after;
  }
  begins = begins || (ends >> text_.size() & 1) != 0;
  const bool changed = (ends & ~ends_[rule][at]) != 0 || (begins && !begins_[rule][at]);
  ends_[rule][at] |= ends;
  if (begins) begins_[rule][at] = true;
  return changed;
}

inline NaiveSymbol DrawTerminal(NaiveDraws* draws) {
  static constexpr std::string_view kSets[] = {"a", "b", "c", "ab", "bc", "abc", "a\"", "x,", ""};
  static constexpr std::pair<int32_t, int32_t> kCounts[] = {{1, 1},  {1, 1},  {1, 1}, {0, 1},
                                                            {0, -1}, {1, -1}, {2, 3}, {0, 4}};
  const int32_t set = draws->Below(40);
  const auto [min, max] = kCounts[draws->Below(8)];
  return {.set = std::string(kSets[set == 39 ? 8 : set % 8]), .min = min, .max = max};
}

inline NaiveSymbol DrawSymbol(NaiveDraws* draws, int32_t rules,
                              const std::vector<int32_t>& tokens) {
  const int32_t kind = draws->Below(12);
  if (kind < 5) return {.rule = draws->Below(rules)};
  if (kind > 5 || tokens.empty()) return DrawTerminal(draws);
  const int32_t count = static_cast<int32_t>(tokens.size());
  return {.token = tokens[static_cast<size_t>(draws->Below(count))]};
}

inline NaiveGrammar DrawGrammar(NaiveDraws* draws, const std::vector<int32_t>& tokens) {
  NaiveGrammar grammar;
  const int32_t rules = 1 + draws->Below(4);
  grammar.rules.resize(static_cast<size_t>(rules));
  for (auto& rule : grammar.rules) {
    rule.resize(1 + static_cast<size_t>(draws->Below(3)));
    for (auto& alternative : rule) {
      const int32_t symbols = draws->Below(4);
      for (int32_t i = 0; i < symbols; ++i) {
        alternative.push_back(DrawSymbol(draws, rules, tokens));
      }
    }
  }
  return grammar;
}

}  // namespace thalweg::grammar
