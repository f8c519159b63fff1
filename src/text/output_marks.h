// What is looked for in each state of the decoder (docs/decoder.md has the table).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/byte_patterns.h"
#include "text/output_decoder.h"

namespace thalweg::text {

enum class OutputState : uint8_t {
  kReasoning,
  kContent,
  kJsonLead,  // json_content: before the JSON
  kJson,
  kJsonTail,   // behind it
  kCalls,      // in a block, between calls
  kToolName,   // behind invoke name="
  kArguments,  // in a call, between parameters
  kKey,
  kKind,  // from the name to ">"
  kValue,
  kValueEnd,    // behind a closing tag in a value, which perhaps ends it
  kClosingTag,  // behind "</｜DSML｜"
  kDone,
};
inline constexpr size_t kOutputStates = 14;

// The tokens <think> and </think> as bytes that no text contains.
inline constexpr char kThinkByte = '\xFD';
inline constexpr char kEndThinkByte = '\xFE';
// `text` with these bytes spelled out.
std::string SpellMarks(std::string_view text);

enum class OutputMark : uint8_t {
  kStop,
  kThink,
  kEndThink,
  kOpenTag,   // "<｜DSML｜"
  kCloseTag,  // "</｜DSML｜"
  kFence,     // of json_content: the JSON begins behind it
  kBrace,     // the JSON begins with it
  kFenceEnd,
  kInvoke,     // invoke name="
  kParameter,  // parameter name="
  kEndOfName,
  kEndOfTag,
};

class OutputMarks {
 public:
  // What is looked for in `state` under these options.
  OutputMarks(OutputState state, const OutputDecoderOptions& options);

  const BytePatterns& patterns() const { return patterns_; }
  OutputMark mark(size_t pattern) const { return marks_[pattern]; }
  const std::string& text(size_t pattern) const { return patterns_.text(pattern); }

 private:
  void AddAll(OutputState state, const OutputDecoderOptions& options);
  void Add(OutputMark mark, std::string_view text, bool newlines = false);
  void AddContent(OutputState state, const OutputDecoderOptions& options);
  void AddStops(const OutputDecoderOptions& options);
  void AddThink(const OutputDecoderOptions& options, bool newlines);
  void AddTags(bool newlines);
  void AddJsonBegin();

  BytePatterns patterns_;
  std::vector<OutputMark> marks_;
};

}  // namespace thalweg::text
