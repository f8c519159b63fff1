// What a mark does in the state in which it is found.
#include <utility>

#include "text/dsml.h"
#include "text/output_machine.h"

namespace thalweg::text {

// False: the mark is a part of a JSON string and stays text.
bool OutputMachine::OnMatch(const PatternScan::Match& match) {
  const OutputMark mark = marks_->mark(match.pattern);
  const bool in_string = state_ == OutputState::kJson && json_.in_string();
  if (in_string && mark != OutputMark::kStop) return false;
  const std::string held = std::exchange(held_, {});
  Text(std::string_view(held).substr(0, held.size() - match.length));
  OnMark(mark, match.pattern);
  return true;
}

void OutputMachine::OnMark(OutputMark mark, size_t pattern) {
  switch (mark) {
    case OutputMark::kStop: return OnStop(pattern);
    case OutputMark::kThink: return OnThink();
    case OutputMark::kEndThink: return OnEndThink();
    case OutputMark::kOpenTag: return OnOpenTag();
    case OutputMark::kCloseTag: return OnCloseTag(pattern);
    case OutputMark::kFence: return BeginJson({});
    case OutputMark::kBrace: return BeginJson(marks_->text(pattern));
    case OutputMark::kFenceEnd: return Enter(OutputState::kJsonTail);
    case OutputMark::kInvoke: return OnInvoke();
    case OutputMark::kParameter: return OnParameter();
    case OutputMark::kEndOfName: return OnEndOfName();
    case OutputMark::kEndOfTag: return OnEndOfTag(pattern);
  }
}

void OutputMachine::OnStop(size_t pattern) {
  stop_string_ = marks_->text(pattern);
  if (options_.include_stop) Text(stop_string_);
  Enter(OutputState::kDone);
}

// A model that begins to think again is let: its thoughts are no content.
void OutputMachine::OnThink() {
  ++faults_.stray_think;
  Enter(OutputState::kReasoning);
  leading_ = true;
}

void OutputMachine::OnEndThink() {
  if (state_ == OutputState::kReasoning) {
    EnterContent();
    leading_ = true;
    return;
  }
  ++faults_.stray_think;
  Enter(state_);
}

void OutputMachine::OnOpenTag() {
  if (state_ == OutputState::kCalls || state_ == OutputState::kArguments) return Enter(state_);
  block_from_ = state_;
  calls_before_block_ = calls_.calls();
  Enter(OutputState::kCalls);
}

void OutputMachine::OnCloseTag(size_t pattern) {
  if (state_ == OutputState::kValue) {
    value_end_.Begin(marks_->text(pattern));
    return Enter(OutputState::kValueEnd);
  }
  tag_from_ = state_;
  name_.clear();
  Enter(OutputState::kClosingTag);
}

void OutputMachine::BeginJson(const std::string& brace) {
  json_ = JsonExtent();
  Enter(OutputState::kJson);
  Feed(brace);
}

void OutputMachine::OnInvoke() {
  if (state_ == OutputState::kArguments) calls_.End();
  name_.clear();
  Enter(OutputState::kToolName);
}

void OutputMachine::OnParameter() {
  calls_.BeginKey();
  Enter(OutputState::kKey);
}

void OutputMachine::OnEndOfName() {
  if (state_ == OutputState::kToolName) {
    calls_.Begin(std::exchange(name_, {}));
    return Enter(OutputState::kArguments);
  }
  calls_.EndKey();
  name_.clear();
  Enter(OutputState::kKind);
}

void OutputMachine::OnEndOfTag(size_t pattern) {
  if (state_ == OutputState::kKind) return BeginValue();
  const std::string end = marks_->text(pattern);
  CloseTag();
  if (end == "<") Feed(end);
}

void OutputMachine::BeginValue() {
  const auto says = [&](std::string_view word) { return name_.find(word) != std::string::npos; };
  CallWriter::Kind kind = CallWriter::Kind::kUnknown;
  if (says("true")) kind = CallWriter::Kind::kString;
  if (says("false")) kind = CallWriter::Kind::kJson;
  calls_.BeginValue(kind);
  Enter(OutputState::kValue);
}

// The closing tag of name_ is complete.
void OutputMachine::CloseTag() {
  const DsmlTag tag = ClosingTag(name_);
  const bool in_call = tag_from_ == OutputState::kArguments;
  if (!in_call && tag_from_ != OutputState::kCalls) {
    ++faults_.stray_tags;
    return Enter(tag_from_);
  }
  if (in_call && tag == DsmlTag::kParameter) return Enter(OutputState::kArguments);
  if (in_call) calls_.End();
  Enter(OutputState::kCalls);
  if (tag == DsmlTag::kBlock) EndBlock();
}

// Nothing can follow the calls. Where there were none, the answer goes on: it is not lost.
void OutputMachine::EndBlock() {
  if (calls_.calls() > calls_before_block_) return Enter(OutputState::kDone);
  ++faults_.empty_blocks;
  Enter(block_from_);
  leading_ = true;
}

}  // namespace thalweg::text
