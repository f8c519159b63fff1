// A request as the caller wrote it, made ready for the scheduler, on the caller's thread: prompt to
// token ids, limits, parameters. Every error is this request's alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/record.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace thalweg::engine {

inline constexpr size_t kMaxIdBytes = 256;
inline constexpr size_t kMaxSaltBytes = 256;
inline constexpr int kMaxPriority = 1000;  // either sign

// What intake must know of the engine; nothing of it changes.
struct IntakeOptions {
  const text::Tokenizer* tokenizer = nullptr;  // null: prompts are token ids
  int64_t vocab = std::numeric_limits<int32_t>::max();
  int64_t context_tokens = 0;  // longest prompt with its output
  std::vector<int32_t> end_tokens = {};
  // The replay cut of a prompt of so many tokens (model/replay.h); none: 0.
  std::function<int64_t(int64_t)> decoder_from = {};
  bool bounded_reuse = false;      // prefixes are reused, and not exactly
  bool takes_processors = false;   // the executor runs custom logits processors
  bool takes_constraints = false;  // the executor draws tokens under masks
  uint64_t seed = 1;               // of the seeds that are drawn
};

class Intake {
 public:
  explicit Intake(IntakeOptions options);

  // kInvalidArgument: what is wrong and how it should be. kOutOfRange: a prompt, or a prompt with
  // its max_tokens, that the context does not hold; both numbers are named. kUnsupported: text
  // where there is no tokenizer, a processor that the executor cannot run.
  Result<PreparedRequest> Prepare(GenerateRequest request, OutputSink sink) const;

 private:
  Status CheckShape(const GenerateRequest& request) const;
  Status CheckStops(const GenerateRequest& request) const;
  Status CheckPromise(const GenerateRequest& request) const;
  Result<std::vector<int32_t>> PromptTokens(const GenerateRequest& request) const;
  Status CheckTokens(const std::vector<int32_t>& tokens) const;
  Result<int64_t> MaxTokens(int64_t asked, int64_t prompt_tokens) const;
  Status FillSampling(uint64_t first_sequence, GenerateRequest* request) const;
  bool EndsInThinking(const std::vector<int32_t>& tokens) const;
  std::shared_ptr<RequestRecord> Record(GenerateRequest* request, OutputSink sink,
                                        const std::vector<int32_t>& prompt) const;
  sched::Request Sequence(const GenerateRequest& request, const RequestRecord& record, int32_t i,
                          const std::vector<int32_t>& prompt, int64_t max_tokens) const;

  const IntakeOptions options_;
  int32_t think_begin_ = -1, think_end_ = -1;
  mutable std::atomic<uint64_t> next_sequence_ = 1;
};

}  // namespace thalweg::engine
