// One line of an accuracy set (docs/evaluation.md): what is asked, and how the answer is judged.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/argument_check.h"
#include "base/json.h"
#include "base/status.h"
#include "tools/eval/answer.h"

namespace thalweg::tools::eval {

// Every limit of sets.
inline constexpr uint64_t kMaxSetBytes = uint64_t{1} << 30;
inline constexpr size_t kMaxLineBytes = size_t{16} << 20;
inline constexpr size_t kMaxItems = 1'000'000;
inline constexpr size_t kMaxChoices = 256;
inline constexpr size_t kMaxAnswers = 256;
inline constexpr size_t kMaxNameBytes = 256;  // of ids and groups

enum class Kind { kPerplexity, kChoice, kExact, kSchema };
std::string_view KindName(Kind kind);  // "perplexity", "choice", "exact", "schema"

struct Item {
  int64_t line = 0;        // of the set's file, from 1
  uint64_t hash = 0;       // of the line: the front of its SHA-256
  std::string id = {};     // may be empty
  std::string group = {};  // figures are given for each; the kind's name when the line has none
  Kind kind = Kind::kExact;
  // perplexity: the text that is scored; otherwise what is asked.
  Prompt prompt = {};
  // perplexity: comes before the text and is not scored. Empty token ids: nothing does.
  Prompt context = std::vector<int32_t>();
  RequestOptions options = {};            // how texts become tokens
  SamplingParams params = {};             // of exact and schema
  std::vector<std::string> choices = {};  // choice
  size_t right_choice = 0;
  std::vector<std::string> answers =
      {};                  // exact: any of them is right; schema: one as JSON, or none
  AnswerRule rule = {};    // exact
  base::Json schema = {};  // schema
  std::shared_ptr<const api::ArgumentCheck> check = {};  // the same, to be asked
  bool constrained = false;  // schema: the grammar binds the answer while it is written
};

// One line. Unknown fields, and fields of another kind, are errors.
Result<Item> ParseItem(std::string_view text);

// The items of a file. Errors name file and line of the first bad lines, not of one alone.
Result<std::vector<Item>> ReadSet(const std::string& path);

}  // namespace thalweg::tools::eval
