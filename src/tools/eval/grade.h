// From an item to the requests that answer it, and from their outputs to its score.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "tools/eval/item.h"
#include "tools/eval/score.h"

namespace thalweg::tools::eval {

struct Question {
  Prompt prompt = {};
  SamplingParams params = {};
  RequestOptions options = {};
  // Scored by likelihood: prompt tokens from here on, which spell so many bytes.
  size_t scored_from = 0;
  int64_t scored_bytes = 0;
};

// perplexity: one question, the context and the text as one prompt. choice: one for each choice,
// whose tokens stand behind those of the prompt; a choice is tokenized by itself, as text without
// special tokens. exact and schema: one. `seed` is for params that name none.
Result<std::vector<Question>> QuestionsOf(const LLM& llm, const Item& item, uint64_t seed);

// What is behind the reasoning, if there is any, and before the end token.
std::string ContentOf(const CompletionOutput& output);

// outputs: one for each question, none with an error.
Score Grade(const Item& item, std::span<const Question> questions,
            std::span<const RequestOutput> outputs);

}  // namespace thalweg::tools::eval
