// Text of the model in, events out: where reasoning ends, where content is, which tools are called
// with what (spec/serving.md 2.7; docs/decoder.md has the whole table). What comes out does not
// depend on how the text was cut into pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/output_events.h"

namespace thalweg::text {

struct OutputDecoderOptions {
  // What the prompt ends with. A continued part keeps the newlines at its beginning, which are
  // dropped elsewhere.
  enum class Start : uint8_t {
    kContent,             // </think>
    kReasoning,           // <think>
    kContinuedContent,    // the beginning of an answer
    kContinuedReasoning,  // the beginning of a reasoning
    kCalls,               // the opening tag of a block of calls: forced tools
  };
  Start start = Start::kContent;

  // Tools are declared: blocks of calls are read, and no DSML markup is ever content. Without,
  // markup is plain text.
  bool tools = false;
  // A block of calls inside the reasoning: true: it ends the reasoning and counts; false: it is a
  // part of the reasoning, which ends at </think> alone.
  bool calls_in_reasoning = true;
  // Content is JSON that nothing else enforces: a code fence around it and prose before and behind
  // become spaces. Not needed with a grammar.
  bool json_content = false;
  // "<think>" and "</think>" spelled in the text are marks. False: only PushMark sets them, and the
  // spelled ones are text.
  bool spelled_think = true;

  // End the text; they act in content alone, never in reasoning or markup. None is empty or
  // ill-formed UTF-8.
  std::vector<std::string> stop = {};
  bool include_stop = false;  // the stop string is part of the content

  std::string call_id_prefix = "call_";  // of the ids of calls: prefix and index
};

enum class ThinkMark : uint8_t { kBegin, kEnd };

class OutputDecoder {
 public:
  // Stop strings beyond the limits, empty or ill-formed are errors.
  static Result<OutputDecoder> Create(OutputDecoderOptions options);
  OutputDecoder(OutputDecoder&&) noexcept;
  OutputDecoder& operator=(OutputDecoder&&) noexcept;
  ~OutputDecoder();

  // Bytes cut anywhere. What may still become a mark or a stop string is held back; all else comes
  // at once. Neighbouring pieces of the same kind are one event.
  OutputEvents Push(std::string_view bytes);
  // The tokens <think> and </think>.
  OutputEvents PushMark(ThinkMark mark);

  // A stop string was found or the block of calls is over: nothing that follows counts, and the
  // sequence may be stopped.
  bool done() const;

  // The end of the text, once: what is held back comes out as what it then is, and OutputEnd is the
  // last event. `reason` is the backend's: kStop (end of turn), kLength, kCancelled or kError. It
  // becomes kToolCalls when a call is complete and the turn was not cut; of a text that is done(),
  // kCancelled is read as kStop.
  OutputEvents Finish(OutputReason reason);

 private:
  class Impl;
  explicit OutputDecoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A whole text at once: the same as its stream.
Result<DecodedOutput> DecodeOutput(OutputDecoderOptions options, std::string_view text,
                                   OutputReason reason);

}  // namespace thalweg::text
