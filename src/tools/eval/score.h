// What came of one item, as a line of the results and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tools/eval/item.h"

namespace thalweg::tools::eval {

// A question about an item with the answer yes or no, such as {"accuracy", true}.
using Mark = std::pair<std::string, bool>;

struct Score {
  Kind kind = Kind::kExact;
  std::string group = {};
  bool error = false;  // the engine refused or failed: nothing else is set
  // perplexity: of the scored text.
  int64_t tokens = 0;
  int64_t bytes = 0;
  double nll = 0;  // sum of -log p, natural
  std::vector<Mark> marks = {};
  base::Json details = base::Json::object();  // for people: the answer, the log-probabilities
};

// One line with its end, whose key is that of a batch (tools/batch/result_line.h): "line", "id",
// "input" (hash of the item's line), "run"; then "kind", "group" and the score. It holds nothing
// that differs between two runs.
std::string ScoreLine(const Item& item, std::string_view run, const Score& score);
std::string ScoreErrorLine(const Item& item, std::string_view run, const Error& error);

// What a line says about its item. Details are not read back.
Result<Score> ParseScoreLine(std::string_view text);

// The scores of a file of results, by line of the set.
Result<std::vector<Score>> ReadScores(const std::string& path);

}  // namespace thalweg::tools::eval
