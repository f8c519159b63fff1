#include "text/output_marks.h"

#include "text/dsml.h"

namespace thalweg::text {

std::string SpellMarks(std::string_view text) {
  std::string spelled;
  for (const char byte : text) {
    if (byte == kThinkByte) {
      spelled += "<think>";
    } else if (byte == kEndThinkByte) {
      spelled += "</think>";
    } else {
      spelled.push_back(byte);
    }
  }
  return spelled;
}

OutputMarks::OutputMarks(OutputState state, const OutputDecoderOptions& options) {
  AddAll(state, options);
}

void OutputMarks::AddAll(OutputState state, const OutputDecoderOptions& options) {
  switch (state) {
    case OutputState::kReasoning:
      AddThink(options, /*newlines=*/true);
      if (options.tools && options.calls_in_reasoning) AddTags(/*newlines=*/true);
      return;
    case OutputState::kContent:
    case OutputState::kJsonLead:
    case OutputState::kJson:
    case OutputState::kJsonTail: return AddContent(state, options);
    case OutputState::kCalls: Add(OutputMark::kInvoke, "invoke name=\""); return AddTags(false);
    case OutputState::kToolName:
      // A name has none of these; where its quote is missing, it ends with the tag or the line.
      for (const char* end : {"\"", ">", "\n"}) Add(OutputMark::kEndOfName, end);
      return;
    case OutputState::kArguments:
      Add(OutputMark::kParameter, "parameter name=\"");
      Add(OutputMark::kInvoke, "invoke name=\"");
      return AddTags(false);
    case OutputState::kKey: return Add(OutputMark::kEndOfName, "\"");
    case OutputState::kKind: return Add(OutputMark::kEndOfTag, ">");
    case OutputState::kValue:
      for (const std::string_view tag : kDsmlCloses) Add(OutputMark::kCloseTag, tag);
      return;
    case OutputState::kClosingTag:
      for (const char* end : {">", "\n", "<"}) Add(OutputMark::kEndOfTag, end);
      return;
    case OutputState::kValueEnd:
    case OutputState::kDone: return;
  }
}

void OutputMarks::AddContent(OutputState state, const OutputDecoderOptions& options) {
  const bool is_content = state == OutputState::kContent || state == OutputState::kJson;
  const bool has_json = state == OutputState::kJson || state == OutputState::kJsonTail;
  if (is_content) AddStops(options);
  if (state == OutputState::kJsonLead) AddJsonBegin();
  if (has_json) Add(OutputMark::kFenceEnd, "\n```");
  AddThink(options, /*newlines=*/false);
  if (options.tools) AddTags(/*newlines=*/true);
}

void OutputMarks::Add(OutputMark mark, std::string_view text, bool newlines) {
  patterns_.Add(std::string(text), newlines);
  marks_.push_back(mark);
}

void OutputMarks::AddStops(const OutputDecoderOptions& options) {
  for (const std::string& stop : options.stop) Add(OutputMark::kStop, stop);
}

void OutputMarks::AddThink(const OutputDecoderOptions& options, bool newlines) {
  Add(OutputMark::kThink, std::string_view(&kThinkByte, 1));
  Add(OutputMark::kEndThink, std::string_view(&kEndThinkByte, 1), newlines);
  if (options.spelled_think) Add(OutputMark::kEndThink, "</think>", newlines);
}

// The mark alone, too: it is one token, and the bracket before it may be missing.
void OutputMarks::AddTags(bool newlines) {
  for (const std::string_view tag : kDsmlOpens) Add(OutputMark::kOpenTag, tag, newlines);
  for (const std::string_view tag : kDsmlCloses) Add(OutputMark::kCloseTag, tag, newlines);
  Add(OutputMark::kOpenTag, kDsmlMark, newlines);
}

void OutputMarks::AddJsonBegin() {
  for (const char* fence : {"```json\n", "```\n"}) Add(OutputMark::kFence, fence);
  for (const char* brace : {"{", "["}) Add(OutputMark::kBrace, brace);
}

}  // namespace thalweg::text
