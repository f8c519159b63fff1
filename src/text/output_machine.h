// The states of a turn of the model and how bytes lead from one to the next (spec/serving.md 2.7;
// docs/decoder.md).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "text/call_writer.h"
#include "text/event_list.h"
#include "text/json_extent.h"
#include "text/output_marks.h"
#include "text/value_end.h"

namespace thalweg::text {

class OutputMachine {
 public:
  explicit OutputMachine(OutputDecoderOptions options);
  OutputMachine(const OutputMachine&) = delete;
  OutputMachine& operator=(const OutputMachine&) = delete;

  // Whole characters, or kThinkByte and kEndThinkByte.
  void Feed(std::string_view bytes);
  // The end of a piece: what no later byte can change is given out.
  void Settle();
  void Finish(OutputReason reason);

  bool done() const { return state_ == OutputState::kDone; }
  OutputEvents Take() { return events_.Take(); }

 private:
  void Advance(char byte);
  void AdvanceValueEnd(char byte);
  void AdvanceJson(char byte);

  void Enter(OutputState state);
  void EnterContent();
  void Text(std::string_view bytes);
  void Spaces(std::string_view bytes);

  bool OnMatch(const PatternScan::Match& match);
  void OnMark(OutputMark mark, size_t pattern);
  void OnStop(size_t pattern);
  void OnThink();
  void OnEndThink();
  void OnOpenTag();
  void OnCloseTag(size_t pattern);
  void OnInvoke();
  void OnParameter();
  void OnEndOfName();
  void OnEndOfTag(size_t pattern);

  void BeginJson(const std::string& brace);
  void BeginValue();
  void CloseTag();
  void EndBlock();
  void EndTentativeValue();
  void FinishOpenCall(OutputReason reason);
  OutputReason ReasonOf(OutputReason backend) const;
  OutputFaults Faults() const;

  OutputDecoderOptions options_;
  // Of the states that were entered so far.
  std::array<std::unique_ptr<const OutputMarks>, kOutputStates> all_marks_;
  const OutputMarks* marks_ = nullptr;  // of this one
  EventList events_;
  CallWriter calls_;

  OutputState state_ = OutputState::kContent;
  PatternScan scan_;
  std::string held_;      // bytes of this state that are not given out yet
  bool leading_ = false;  // newlines that come now are dropped
  JsonExtent json_;
  ValueEnd value_end_;
  std::string name_;  // of a tool, of a closing tag, or what stands behind the name of a parameter
  OutputState block_from_ = OutputState::kContent;  // where the block of calls began
  OutputState tag_from_ = OutputState::kContent;    // where the closing tag is read
  int calls_before_block_ = 0;
  std::string stop_string_;
  OutputFaults faults_;
};

}  // namespace thalweg::text
