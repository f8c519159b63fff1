// What a turn of the model turns out to be, piece by piece: reasoning, content, calls of tools, and
// how it ended (spec/serving.md 2.7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace thalweg::text {

// Every text in an event is well-formed UTF-8: no character is divided between two events.
struct ReasoningText {
  std::string text;
  bool operator==(const ReasoningText&) const = default;
};

struct ContentText {
  std::string text;
  bool operator==(const ContentText&) const = default;
};

// Calls follow each other: one ends before the next begins.
struct CallBegin {
  int index = 0;     // 0, 1, ...
  std::string id;    // call_id_prefix and the index
  std::string name;  // as the model wrote it; whether there is such a tool is for the caller to say
  bool operator==(const CallBegin&) const = default;
};

// A piece of the arguments. The pieces of a complete call make one JSON object, in json.dumps style
// (", " and ": ") between its members.
struct CallArguments {
  int index = 0;
  std::string text;
  bool operator==(const CallArguments&) const = default;
};

struct CallEnd {
  int index = 0;
  bool complete = true;  // false: the text ended inside the call, whose arguments are cut there
  bool operator==(const CallEnd&) const = default;
};

// What was read over or mended, for logs and metrics. Nothing of it is an error of the request.
struct OutputFaults {
  int64_t stray_think = 0;       // think marks where none belongs
  int64_t stray_tags = 0;        // closing tags where nothing is open
  int64_t ignored_bytes = 0;     // after the end of the block or a stop string
  int64_t mended_values = 0;     // said to be JSON, but are not: handed on as strings
  int64_t incomplete_calls = 0;  // the text ended inside
  int64_t empty_blocks = 0;      // blocks without any call: read over, content goes on behind
  bool operator==(const OutputFaults&) const = default;
};

enum class OutputReason : uint8_t { kStop, kLength, kToolCalls, kCancelled, kError };

// The last event, exactly once.
struct OutputEnd {
  OutputReason reason = OutputReason::kStop;
  std::string stop_string;  // the one that ended the text; empty: none did
  OutputFaults faults;
  bool operator==(const OutputEnd&) const = default;
};

using OutputEvent =
    std::variant<ReasoningText, ContentText, CallBegin, CallArguments, CallEnd, OutputEnd>;
using OutputEvents = std::vector<OutputEvent>;

struct DecodedCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object when complete
  bool complete = false;
  bool operator==(const DecodedCall&) const = default;
};

// The events of a whole turn put together: the answer to a request that does not stream.
struct DecodedOutput {
  std::string reasoning;
  std::string content;
  std::vector<DecodedCall> calls;
  OutputEnd end;
  bool operator==(const DecodedOutput&) const = default;
};

// Adds events in their order.
void Append(const OutputEvents& events, DecodedOutput* output);

}  // namespace thalweg::text
