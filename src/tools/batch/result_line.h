// One line of results: what came of one line of the input.
#pragma once

#include <thalweg/request_output.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "tools/batch/request_line.h"

namespace thalweg::tools::batch {

// Which line of the input a result belongs to.
struct LineKey {
  int64_t number = 0;
  uint64_t hash = 0;
  LineId id = {};
};

// "line", the id, "input" (hash of the line), "run" (hash of what all results depend on), then
// text, finish_reason, ... or, with n > 1, "choices" of them; "usage". Ends with '\n'.
std::string ResultLine(const LineKey& key, std::string_view run, const RequestOutput& output,
                       bool token_ids);
std::string ErrorLine(const LineKey& key, std::string_view run, const Error& error);

// What a later run must know of a line of results.
struct ResultKey {
  int64_t number = 0;
  uint64_t hash = 0;
  std::string run = {};
  bool error = false;
};
Result<ResultKey> ParseResultLine(std::string_view text);

}  // namespace thalweg::tools::batch
