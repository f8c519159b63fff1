#include "text/output_machine.h"

#include <utility>

#include "text/dsml.h"

namespace thalweg::text {
namespace {

using Start = OutputDecoderOptions::Start;

bool InCall(OutputState state) {
  return state == OutputState::kArguments || state == OutputState::kKey ||
         state == OutputState::kKind || state == OutputState::kValue;
}

}  // namespace

OutputMachine::OutputMachine(OutputDecoderOptions options)
    : options_(std::move(options)), calls_(options_.call_id_prefix, &events_) {
  options_.tools = options_.tools || options_.start == Start::kCalls;
  switch (options_.start) {
    case Start::kContent:
    case Start::kContinuedContent: EnterContent(); break;
    case Start::kReasoning:
    case Start::kContinuedReasoning: Enter(OutputState::kReasoning); break;
    case Start::kCalls: Enter(OutputState::kCalls); break;
  }
  leading_ = options_.start == Start::kContent || options_.start == Start::kReasoning;
}

void OutputMachine::Feed(std::string_view bytes) {
  for (const char byte : bytes) Advance(byte);
}

void OutputMachine::Advance(char byte) {
  if (state_ == OutputState::kDone) {
    ++faults_.ignored_bytes;
    return;
  }
  if (state_ == OutputState::kValueEnd) return AdvanceValueEnd(byte);
  if (leading_ && byte == '\n') return;
  leading_ = false;
  held_.push_back(byte);
  const auto match = scan_.Advance(byte);
  if (match && OnMatch(*match)) return;
  if (state_ == OutputState::kJson) AdvanceJson(byte);
}

void OutputMachine::AdvanceValueEnd(char byte) {
  switch (value_end_.Advance(byte)) {
    case ValueEnd::Verdict::kOpen: return;
    case ValueEnd::Verdict::kEnds: return EndTentativeValue();
    case ValueEnd::Verdict::kText: break;
  }
  const std::string bytes = value_end_.bytes();
  Enter(OutputState::kValue);
  Text(value_end_.mark());
  Feed(bytes);
}

// The tag is read again where it counts.
void OutputMachine::EndTentativeValue() {
  const std::string bytes = value_end_.mark() + value_end_.bytes();
  calls_.EndValue();
  Enter(OutputState::kArguments);
  Feed(bytes);
}

// The JSON ends with the bracket that closes the first one: what follows is no part of it.
void OutputMachine::AdvanceJson(char byte) {
  if (!json_.Advance(byte)) return;
  Text(std::exchange(held_, {}));
  Enter(OutputState::kJsonTail);
}

void OutputMachine::Enter(OutputState state) {
  state_ = state;
  auto& marks = all_marks_[static_cast<size_t>(state)];
  if (!marks) marks = std::make_unique<const OutputMarks>(state, options_);
  marks_ = marks.get();
  scan_ = PatternScan(marks->patterns());
  leading_ = false;
}

void OutputMachine::EnterContent() {
  Enter(options_.json_content ? OutputState::kJsonLead : OutputState::kContent);
}

void OutputMachine::Settle() {
  const size_t certain = held_.size() - scan_.held();
  if (certain == 0) return;
  Text(std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
}

void OutputMachine::Text(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string text = SpellMarks(bytes);
  switch (state_) {
    case OutputState::kReasoning: return events_.Reasoning(text);
    case OutputState::kContent:
    case OutputState::kJson: return events_.Content(text);
    case OutputState::kJsonLead:
    case OutputState::kJsonTail: return Spaces(text);
    case OutputState::kToolName:
    case OutputState::kKind:
    case OutputState::kClosingTag: name_ += text; return;
    case OutputState::kKey: return calls_.Key(text);
    case OutputState::kValue: return calls_.Value(text);
    case OutputState::kCalls:
    case OutputState::kArguments:
    case OutputState::kValueEnd:
    case OutputState::kDone: return;
  }
}

// One for each character, so that offsets in the text stay what they are.
void OutputMachine::Spaces(std::string_view bytes) {
  std::string spaces;
  for (const char byte : bytes) {
    if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) spaces.push_back(' ');
  }
  events_.Content(spaces);
}

void OutputMachine::Finish(OutputReason reason) {
  if (state_ == OutputState::kValueEnd) {
    if (value_end_.has_tag()) {
      EndTentativeValue();
    } else {
      calls_.EndValue();
      Enter(OutputState::kArguments);
    }
  }
  Text(std::exchange(held_, {}));
  if (state_ == OutputState::kClosingTag) CloseTag();
  FinishOpenCall(reason);
  events_.Add(OutputEnd{ReasonOf(reason), stop_string_, Faults()});
}

// A turn that ends by itself between two parameters has said all of its call.
void OutputMachine::FinishOpenCall(OutputReason reason) {
  if (state_ == OutputState::kToolName) ++faults_.incomplete_calls;
  if (!InCall(state_)) return;
  const bool whole = state_ == OutputState::kArguments && calls_.has_parameters();
  if (whole && reason == OutputReason::kStop) return calls_.End();
  ++faults_.incomplete_calls;
  calls_.Cut();
}

OutputReason OutputMachine::ReasonOf(OutputReason backend) const {
  if (!stop_string_.empty()) return OutputReason::kStop;
  if (backend == OutputReason::kCancelled && done()) backend = OutputReason::kStop;
  const bool calls = backend == OutputReason::kStop && calls_.complete_calls() > 0;
  return calls ? OutputReason::kToolCalls : backend;
}

OutputFaults OutputMachine::Faults() const {
  OutputFaults faults = faults_;
  faults.mended_values = calls_.mended_values();
  const bool in_block = state_ == OutputState::kCalls || state_ == OutputState::kToolName;
  if (in_block && calls_.calls() == 0) ++faults.empty_blocks;
  return faults;
}

}  // namespace thalweg::text
