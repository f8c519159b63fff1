#include "text/regex_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/regex_parser.h"

namespace thalweg::text {
namespace {

using Kind = RegexNode::Kind;
using Op = RegexInst::Op;

// Whether the node can match without taking a character.
bool MatchesEmpty(const RegexNode& node) {
  const auto matches = [](const RegexNode& child) { return MatchesEmpty(child); };
  switch (node.kind) {
    case Kind::kSet: return false;
    case Kind::kLookIn:
    case Kind::kLookOut: return true;
    case Kind::kConcat: return std::all_of(node.children.begin(), node.children.end(), matches);
    case Kind::kAlternate: return std::any_of(node.children.begin(), node.children.end(), matches);
    case Kind::kRepeat: return node.min == 0 || node.max == 0 || MatchesEmpty(node.children[0]);
  }
  return true;
}

class Emitter {
 public:
  explicit Emitter(std::vector<RegexInst>& code) : code_(code) {}

  Status Emit(const RegexNode& node) {
    if (code_.size() > kMaxRegexCode) return base::Unsupported("the pattern is too large");
    switch (node.kind) {
      case Kind::kSet: Add(Op::kSet, node.set); return {};
      case Kind::kLookIn: Add(Op::kLookIn, node.set); return {};
      case Kind::kLookOut: Add(Op::kLookOut, node.set); return {};
      case Kind::kConcat:
        for (const RegexNode& child : node.children) TW_TRY(Emit(child));
        return {};
      case Kind::kAlternate: return Alternate(node);
      case Kind::kRepeat: return Repeat(node);
    }
    return {};
  }

 private:
  int Here() const { return static_cast<int>(code_.size()); }

  int Add(Op op, int a = 0, int b = 0) {
    code_.push_back({op, a, b});
    return Here() - 1;
  }

  Status Alternate(const RegexNode& node) {
    std::vector<int> jumps;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const bool last = i + 1 == node.children.size();
      const int fork = last ? -1 : Add(Op::kFork, Here() + 1);
      TW_TRY(Emit(node.children[i]));
      if (last) break;
      jumps.push_back(Add(Op::kJump));
      code_[fork].b = Here();
    }
    for (const int jump : jumps) code_[jump].a = Here();
    return {};
  }

  Status Repeat(const RegexNode& node) {
    const RegexNode& body = node.children[0];
    if (MatchesEmpty(body)) return base::Unsupported("a repeat of what may be empty");
    for (int i = 0; i < node.min; ++i) TW_TRY(Emit(body));
    if (node.max == RegexNode::kNoLimit) return Loop(body, node.lazy);
    std::vector<int> forks;
    for (int i = node.min; i < node.max; ++i) {
      forks.push_back(Add(Op::kFork));
      TW_TRY(Emit(body));
    }
    for (const int fork : forks) Aim(fork, fork + 1, Here(), node.lazy);
    return {};
  }

  Status Loop(const RegexNode& body, bool lazy) {
    const int fork = Add(Op::kFork);
    TW_TRY(Emit(body));
    Add(Op::kJump, fork);
    Aim(fork, fork + 1, Here(), lazy);
    return {};
  }

  void Aim(int fork, int more, int out, bool lazy) {
    code_[fork].a = lazy ? out : more;
    code_[fork].b = lazy ? more : out;
  }

  std::vector<RegexInst>& code_;
};

}  // namespace

Result<RegexProgram> CompileRegex(std::string_view pattern) {
  TW_ASSIGN(RegexTree tree, ParseRegex(pattern));
  if (MatchesEmpty(tree.root)) {
    return base::Unsupported("the pattern matches the empty text, which is not supported");
  }
  RegexProgram program;
  program.sets = std::move(tree.sets);
  TW_TRY(Emitter(program.code).Emit(tree.root));
  program.code.push_back({Op::kMatch});
  return program;
}

std::string EscapeRegex(std::string_view literal) {
  std::string escaped;
  for (const char c : literal) {
    if (std::string_view("\\^$.|?*+()[]{}-&").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace thalweg::text
