#include "tools/lint/functions.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "tools/lint/blank.h"

namespace thalweg::tools::lint {
namespace {

struct Token {
  std::string text;
  int line = 0;
};
using Tokens = std::vector<Token>;

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsWord(std::string_view text) { return !text.empty() && IsWordChar(text.front()); }

// Operators that must not be read as their parts, for '<', '>' and '=' mean something here.
size_t OperatorLength(std::string_view rest) {
  constexpr std::array<std::string_view, 9> kOperators = {
      "<=>", "::", "->", "==", "!=", "<=", ">=", "&&", "\"\""};
  for (std::string_view op : kOperators) {
    if (rest.starts_with(op)) return op.size();
  }
  return 1;
}

size_t TokenLength(std::string_view rest) {
  if (!IsWordChar(rest.front())) return OperatorLength(rest);
  size_t length = 1;
  while (length < rest.size() && IsWordChar(rest[length])) ++length;
  return length;
}

Tokens Tokenise(std::string_view code) {
  Tokens tokens;
  int line = 1;
  for (size_t at = 0; at < code.size();) {
    if (code[at] == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(code[at])) != 0) {
      ++at;
      continue;
    }
    const size_t length = TokenLength(code.substr(at));
    tokens.push_back({std::string(code.substr(at, length)), line});
    at += length;
  }
  return tokens;
}

// Takes [first, last) out when `drop` says so, else moves past it.
size_t EraseRange(Tokens& head, size_t first, size_t last) {
  head.erase(head.begin() + static_cast<std::ptrdiff_t>(first),
             head.begin() + static_cast<std::ptrdiff_t>(std::min(last, head.size())));
  return first;
}

// "operator" and the punctuation after it become one token, "operator<<" or "operator()".
void JoinOperatorNames(Tokens& head) {
  for (size_t i = 0; i < head.size(); ++i) {
    if (head[i].text != "operator") continue;
    size_t end = i + 1;
    while (end < head.size() && head[end].text != "()") ++end;
    const bool call = end == i + 1 && end + 1 < head.size() && head[end + 1].text == "()";
    if (call) ++end;
    for (size_t j = i + 1; j < end; ++j) head[i].text += head[j].text;
    EraseRange(head, i + 1, end);
  }
}

// Past the closing angle bracket of the one at `open`.
size_t AngleEnd(const Tokens& head, size_t open) {
  int depth = 0;
  for (size_t i = open; i < head.size(); ++i) {
    if (head[i].text == "<") ++depth;
    if (head[i].text == ">" && --depth == 0) return i + 1;
  }
  return open + 1;
}

void DropAngles(Tokens& head) {
  for (size_t i = 0; i < head.size();) {
    i = head[i].text == "<" ? EraseRange(head, i, AngleEnd(head, i)) : i + 1;
  }
}

size_t AttributeEnd(const Tokens& head, size_t open) {
  size_t end = open;
  while (end + 1 < head.size() && !(head[end].text == "]" && head[end + 1].text == "]")) ++end;
  return end + 2;
}

bool TakesParentheses(std::string_view word) {
  return word == "alignas" || word == "__attribute__" || word == "noexcept" || word == "decltype" ||
         word == "explicit" || word == "__launch_bounds__";
}

// [[...]], alignas(...), __attribute__(...), noexcept(...): decoration that hides what a head is.
void DropDecoration(Tokens& head) {
  for (size_t i = 0; i + 1 < head.size();) {
    if (head[i].text == "[" && head[i + 1].text == "[") {
      i = EraseRange(head, i, AttributeEnd(head, i));
    } else if (TakesParentheses(head[i].text) && head[i + 1].text == "()") {
      i = EraseRange(head, i, i + 2);
    } else {
      ++i;
    }
  }
}

// The head of a declaration reduced to what tells its kind: parentheses are already one "()" token.
Tokens Reduce(Tokens head) {
  JoinOperatorNames(head);
  DropAngles(head);
  DropDecoration(head);
  return head;
}

size_t Find(const Tokens& head, std::string_view text, size_t from = 0) {
  for (size_t i = from; i < head.size(); ++i) {
    if (head[i].text == text) return i;
  }
  return head.size();
}

bool Has(const Tokens& head, std::string_view text) { return Find(head, text) < head.size(); }

enum class Kind { kScope, kFunction, kInitialiser };

bool IsTypeHead(const Tokens& head) {
  return (Has(head, "class") || Has(head, "struct") || Has(head, "union")) && !Has(head, "()") &&
         !Has(head, "enum");
}

// After "Name(...) :" a brace that follows a word initialises a member; any other opens the body.
bool InitialisesMember(const Tokens& head) {
  const size_t parameters = Find(head, "()");
  return Find(head, ":", parameters) < head.size() && IsWord(head.back().text);
}

Kind KindOf(const Tokens& head) {
  if (head.empty()) return Kind::kInitialiser;
  if (Has(head, "namespace")) return Kind::kScope;
  if (head.front().text == "extern" && head.size() == 2) return Kind::kScope;
  if (const size_t equals = Find(head, "="); equals < head.size()) {
    const bool lambda = Find(head, "[", equals) < head.size();
    return lambda ? Kind::kFunction : Kind::kInitialiser;
  }
  if (Has(head, "concept")) return Kind::kInitialiser;
  if (IsTypeHead(head)) return Kind::kScope;
  if (!Has(head, "()") || InitialisesMember(head)) return Kind::kInitialiser;
  return Kind::kFunction;
}

// "Shape::elements": the words and colons right before the parameters, or before '=' of a lambda.
std::string NameOf(const Tokens& head) {
  const size_t end = std::min(Find(head, "()"), Find(head, "="));
  size_t begin = end;
  while (begin > 0) {
    const bool after_colons = begin == end || head[begin].text == "::" || head[begin].text == "~";
    const std::string& text = head[begin - 1].text;
    const bool joins = text == "::" || text == "~" || (IsWord(text) && after_colons);
    if (!joins) break;
    --begin;
  }
  std::string name;
  for (size_t i = begin; i < end; ++i) name += head[i].text;
  return name;
}

// A name of one or two capitals is a name.
bool IsMacroName(std::string_view name) {
  return name.size() > 2 && std::all_of(name.begin(), name.end(), [](char c) {
           return c == '_' || std::isupper(static_cast<unsigned char>(c)) != 0;
         });
}

bool IsAccess(std::string_view word) {
  return word == "public" || word == "private" || word == "protected";
}

// Walks the tokens of a file. Namespaces and classes are walked into; everything else in braces is
// stepped over as a whole.
class Walker {
 public:
  explicit Walker(Tokens tokens) : tokens_(std::move(tokens)) {}

  bool Run() {
    while (balanced_ && at_ < tokens_.size()) Step();
    return balanced_ && depth_ == 0;
  }

  std::vector<Function> Take() { return std::move(functions_); }

 private:
  void Step() {
    const std::string& text = tokens_[at_].text;
    if (text == ";") return Restart();
    if (text == "{") return OpenBrace();
    if (text == "}") return CloseScope();
    if (text == "(") return Parentheses();
    if (text == ":" && head_.size() == 1 && IsAccess(head_[0].text)) return Restart();
    head_.push_back(tokens_[at_++]);
  }

  void Restart() {
    head_.clear();
    parameters_.clear();
    ++at_;
  }

  void CloseScope() {
    if (--depth_ < 0) balanced_ = false;
    Restart();
  }

  void OpenBrace() {
    const Tokens head = Reduce(head_);
    const Kind kind = KindOf(head);
    if (kind == Kind::kScope) {
      ++depth_;
      return Restart();
    }
    const int line = tokens_[at_].line;
    const size_t close = Match("{", "}");
    if (!balanced_) return;
    at_ = close;
    if (kind == Kind::kInitialiser) {
      head_.push_back({"{}", line});
      ++at_;
      return;
    }
    Record(head, tokens_[close].line);
    Restart();
  }

  void Record(const Tokens& head, int last_line) {
    Function function;
    function.name = NameOf(head);
    if (IsMacroName(function.name)) function.name += parameters_;
    function.first_line = head_.front().line;
    function.last_line = last_line;
    function.device = Has(head, "__global__") || Has(head, "__device__");
    functions_.push_back(std::move(function));
  }

  // Parentheses become one token; the text of the first is kept for names such as TEST(A, B).
  void Parentheses() {
    const size_t close = Match("(", ")");
    if (!balanced_) return;
    const bool first = parameters_.empty();
    for (size_t i = at_; first && i <= close; ++i) {
      parameters_ += tokens_[i].text + (tokens_[i].text == "," ? " " : "");
    }
    head_.push_back({"()", tokens_[at_].line});
    at_ = close + 1;
  }

  // The index of the token that closes the one at at_.
  size_t Match(std::string_view open, std::string_view close) {
    int depth = 0;
    for (size_t i = at_; i < tokens_.size(); ++i) {
      if (tokens_[i].text == open) ++depth;
      if (tokens_[i].text == close && --depth == 0) return i;
    }
    balanced_ = false;
    return tokens_.size();
  }

  Tokens tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  bool balanced_ = true;
  Tokens head_;             // since the last declaration ended
  std::string parameters_;  // text of the first parentheses in head_
  std::vector<Function> functions_;
};

std::optional<std::vector<Function>> Walk(std::string_view code) {
  Walker walker(Tokenise(BlankDirectives(code)));
  if (!walker.Run()) return std::nullopt;
  return walker.Take();
}

}  // namespace

std::optional<std::vector<Function>> FindFunctions(std::string_view code) {
  if (auto functions = Walk(code)) return functions;
  return Walk(BlankElseBranches(code));
}

}  // namespace thalweg::tools::lint
