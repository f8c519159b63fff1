#include "text/split_regex.h"

#include <algorithm>
#include <bit>
#include <map>

#include "text/regex_program.h"
#include "text/utf8.h"

namespace thalweg::text {

// The subset construction. A state is the ordered list of instructions that the backtracking engine
// would still try, most preferred first; a match cuts off what is less preferred.
class DfaBuilder {
 public:
  DfaBuilder(const RegexProgram& program, SplitRegex& regex) : program_(program), regex_(regex) {}

  Status Build() {
    const auto class_count = static_cast<uint32_t>(regex_.classes_.count());
    regex_.end_class_ = class_count;
    width_ = std::bit_ceil(class_count + 1);
    AddState({});  // the dead state is row 0
    regex_.start_row_ = AddState({0});
    for (size_t state = 1; state < states_.size(); ++state) {
      if (states_.size() > kMaxRegexStates) {
        return base::Unsupported("the pattern needs too large an automaton");
      }
      for (uint32_t c = 0; c <= class_count; ++c) {
        const uint32_t entry = Step(states_[state], c);
        regex_.table_[state * width_ + c] = entry;
      }
    }
    return {};
  }

 private:
  using State = std::vector<int>;

  uint32_t AddState(State state) {
    const auto [at, is_new] =
        rows_.try_emplace(state, static_cast<uint32_t>(rows_.size()) * width_);
    if (is_new) {
      states_.push_back(std::move(state));
      regex_.table_.resize(regex_.table_.size() + width_, SplitRegex::kDeadRow);
    }
    return at->second;
  }

  bool InSet(int set, uint32_t c) const {
    return c != regex_.end_class_ && regex_.classes_.Contains(static_cast<int>(c), set);
  }

  uint32_t Step(const State state, uint32_t c) {
    visited_.assign(program_.code.size(), false);
    matched_ = false;
    next_.clear();
    for (const int pc : state) Follow(pc, c);
    return (AddState(next_) << 1) | (matched_ ? 1u : 0u);
  }

  // Goes from `pc` to where a character is taken, in order of preference, knowing that the next
  // character is of class c. An explicit stack, as patterns come from outside.
  void Follow(int pc, uint32_t c) {
    std::vector<int> stack = {pc};
    while (!stack.empty() && !matched_) {
      const int at = stack.back();
      stack.pop_back();
      if (visited_[at]) continue;
      visited_[at] = true;
      Visit(at, c, stack);
    }
  }

  void Visit(int at, uint32_t c, std::vector<int>& stack) {
    const RegexInst& inst = program_.code[at];
    switch (inst.op) {
      case RegexInst::Op::kSet:
        if (InSet(inst.a, c)) next_.push_back(at + 1);
        return;
      case RegexInst::Op::kFork:
        stack.push_back(inst.b);
        stack.push_back(inst.a);
        return;
      case RegexInst::Op::kJump: stack.push_back(inst.a); return;
      case RegexInst::Op::kLookIn:
        if (InSet(inst.a, c)) stack.push_back(at + 1);
        return;
      case RegexInst::Op::kLookOut:
        if (!InSet(inst.a, c)) stack.push_back(at + 1);
        return;
      case RegexInst::Op::kMatch: matched_ = true; return;
    }
  }

  const RegexProgram& program_;
  SplitRegex& regex_;
  uint32_t width_ = 0;
  std::map<State, uint32_t> rows_;
  std::vector<State> states_;
  std::vector<bool> visited_;
  std::vector<int> next_;
  bool matched_ = false;
};

Result<SplitRegex> SplitRegex::Compile(std::string_view pattern) {
  TW_ASSIGN(const RegexProgram program, CompileRegex(pattern));
  SplitRegex regex;
  TW_ASSIGN(regex.classes_, CharClasses::Build(program.sets));
  TW_TRY(DfaBuilder(program, regex).Build());
  return regex;
}

inline uint32_t SplitScanner::ClassAt(size_t pos, size_t& next) const {
  const auto byte = static_cast<uint8_t>(text_[pos]);
  if (byte < 0x80) {
    next = pos + 1;
    return regex_.classes_.OfAscii(byte);
  }
  const auto [code_point, length] = DecodeWellFormed(text_.substr(pos));
  next = pos + length;
  return regex_.classes_.Of(code_point);
}

bool SplitScanner::Next(size_t& start, size_t& end) {
  while (pos_ < text_.size()) {
    size_t next = 0;
    const uint32_t first = regex_.Entry(regex_.start_row_, ClassAt(pos_, next));
    if (first >> 1 != SplitRegex::kDeadRow) {
      const bool costly = overshoot_ > 8 * text_.size() + 256;
      end = costly ? MatchAtRemembering(pos_) : MatchAt(pos_);
      if (end != SplitRegex::kNoMatch) {
        start = pos_;
        pos_ = end;
        return true;
      }
    }
    pos_ = next;
  }
  return false;
}

// Where the match that begins at `start` ends.
size_t SplitScanner::MatchAt(size_t start) {
  size_t end = SplitRegex::kNoMatch;
  size_t pos = start;
  uint32_t row = regex_.start_row_;
  while (row != SplitRegex::kDeadRow) {
    size_t next = pos;
    const uint32_t char_class = pos < text_.size() ? ClassAt(pos, next) : regex_.end_class_;
    const uint32_t entry = regex_.Entry(row, char_class);
    if ((entry & 1) != 0) end = pos;
    row = entry >> 1;
    pos = next;
  }
  overshoot_ += pos - (end == SplitRegex::kNoMatch ? start : end);
  return end;
}

size_t SplitScanner::MatchAtRemembering(size_t start) {
  size_t end = SplitRegex::kNoMatch;
  size_t pos = start;
  uint32_t row = regex_.start_row_;
  std::vector<uint64_t> trail;  // (state, position) pairs since the last match
  while (row != SplitRegex::kDeadRow) {
    size_t next = pos;
    const uint32_t char_class = pos < text_.size() ? ClassAt(pos, next) : regex_.end_class_;
    const uint32_t entry = regex_.Entry(row, char_class);
    if ((entry & 1) != 0) {
      end = pos;
      trail.clear();
    }
    row = entry >> 1;
    pos = next;
    const uint64_t key = pos * regex_.table_.size() + row;
    if (barren_.contains(key)) break;
    trail.push_back(key);
  }
  barren_.insert(trail.begin(), trail.end());
  return end;
}

}  // namespace thalweg::text
