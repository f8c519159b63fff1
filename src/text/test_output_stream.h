// An output decoder under test: what it says is put together, and every event on the way is
// checked.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "text/output_decoder.h"
#include "text/utf8.h"

namespace thalweg::text {

inline bool IsWellFormed(const OutputEvent& event) {
  if (const auto* text = std::get_if<ReasoningText>(&event)) return IsValidUtf8(text->text);
  if (const auto* text = std::get_if<ContentText>(&event)) return IsValidUtf8(text->text);
  if (const auto* text = std::get_if<CallArguments>(&event)) return IsValidUtf8(text->text);
  if (const auto* call = std::get_if<CallBegin>(&event)) return IsValidUtf8(call->name);
  return true;
}

class OutputStream {
 public:
  explicit OutputStream(const OutputDecoderOptions& options)
      : decoder_(OutputDecoder::Create(options).value()) {}

  OutputStream& Push(std::string_view bytes) {
    Take(decoder_.Push(bytes));
    return *this;
  }
  OutputStream& PushMark(ThinkMark mark) {
    Take(decoder_.PushMark(mark));
    return *this;
  }
  DecodedOutput Finish(OutputReason reason = OutputReason::kStop) {
    Take(decoder_.Finish(reason));
    return output_;
  }

  const DecodedOutput& so_far() const { return output_; }
  bool done() const { return decoder_.done(); }

 private:
  void Take(const OutputEvents& events) {
    for (const OutputEvent& event : events) EXPECT_TRUE(IsWellFormed(event));
    Append(events, &output_);
  }

  OutputDecoder decoder_;
  DecodedOutput output_;
};

}  // namespace thalweg::text
