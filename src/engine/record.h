// A request under way, as the threads that handle it share it. Nothing in it changes after intake.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/stop_strings.h"
#include "sched/scheduler.h"

namespace thalweg::engine {

struct RequestRecord {
  std::string id = {};
  OutputSink sink = {};
  uint64_t first_sequence = 0;  // sequence i has number first_sequence + i
  int32_t n = 1;
  int64_t prompt_tokens = 0;
  double submitted_at = 0;

  StopStrings stop = {};
  bool include_stop = false;
  bool skip_special_tokens = true;
  int64_t min_tokens = 0;
  bool wants_logprobs = false;
  bool wants_prompt_logprobs = false;

  // Reasoning spans; -1: the tokenizer has none.
  int32_t think_begin_token = -1;
  int32_t think_end_token = -1;
  bool starts_thinking = false;  // the prompt ends inside a span

  std::string processor = {};  // name under which its logits processor is registered
};

using RecordRef = std::shared_ptr<const RequestRecord>;

// What intake makes of a request: the record, and one scheduler request for each sequence.
struct PreparedRequest {
  std::shared_ptr<RequestRecord> record;
  std::vector<sched::Request> sequences;
};

}  // namespace thalweg::engine
