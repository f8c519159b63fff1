#include "engine/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/rng.h"
#include "sampling/params.h"
#include "text/utf8.h"

namespace thalweg::engine {
namespace {

// Sets drawn seeds apart from other uses of the same key.
constexpr uint32_t kSeedPurpose = 0x73656564;

uint64_t DrawSeed(uint64_t key, uint64_t sequence) {
  const base::PhiloxCounter words = base::Philox4x32(
      {static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32), 0, kSeedPurpose},
      base::PhiloxKeyOf(key));
  return words[0] | static_cast<uint64_t>(words[1]) << 32;
}

Status TooLong(std::string_view what, size_t bytes, size_t most) {
  return base::InvalidArgument(
      fmt::format("{} has {} bytes, but may have {} at most", what, bytes, most));
}

}  // namespace

Intake::Intake(IntakeOptions options) : options_(std::move(options)) {
  if (options_.tokenizer == nullptr) return;
  const auto begin = options_.tokenizer->IdOfSpecial("<think>");
  const auto end = options_.tokenizer->IdOfSpecial("</think>");
  if (!begin.has_value() || !end.has_value()) return;
  think_begin_ = *begin;
  think_end_ = *end;
}

Status Intake::CheckShape(const GenerateRequest& request) const {
  if (request.n < 1 || request.n > kMaxSequencesPerRequest) {
    return base::InvalidArgument(
        fmt::format("n is {}, but must lie in [1, {}]", request.n, kMaxSequencesPerRequest));
  }
  if (request.max_tokens == 0) {
    return base::InvalidArgument(
        "max_tokens is 0, but must be at least 1, or negative for no limit");
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return base::InvalidArgument(fmt::format("priority is {}, but must lie in [{}, {}]",
                                             request.priority, -kMaxPriority, kMaxPriority));
  }
  if (request.id.size() > kMaxIdBytes)
    return TooLong("the request id", request.id.size(), kMaxIdBytes);
  if (request.cache_salt.size() > kMaxSaltBytes)
    return TooLong("cache_salt", request.cache_salt.size(), kMaxSaltBytes);
  return {};
}

Status Intake::CheckStops(const GenerateRequest& request) const {
  if (request.stop.empty()) return {};
  if (options_.tokenizer == nullptr) {
    return base::Unsupported("stop strings need a tokenizer, and this engine has none");
  }
  return text::CheckStopStrings(request.stop);
}

// A seed promises the same answer whatever else runs. Reuse that is not exact breaks that.
Status Intake::CheckPromise(const GenerateRequest& request) const {
  if (request.logits_processor && !options_.takes_processors)
    return base::Unsupported("this engine's executor runs no custom logits processors");
  if (!request.so_args.empty() && !options_.takes_constraints)
    return base::Unsupported("this engine's executor takes no so_args");
  if (!request.seed.has_value() || !options_.bounded_reuse || !request.prefix_reuse) return {};
  return base::InvalidArgument(
      "seed promises a repeatable answer, which --prefix-exactness bounded does not keep: set "
      "prefix_reuse of this request to false, run with --prefix-exactness exact, or leave out "
      "seed");
}

Result<std::vector<int32_t>> Intake::PromptTokens(const GenerateRequest& request) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) return *ids;
  if (options_.tokenizer == nullptr) {
    return base::Unsupported(
        "text prompts need a tokenizer, and this engine has none: give token ids");
  }
  if (const auto* text = std::get_if<std::string>(&request.prompt))
    return options_.tokenizer->Encode(*text, text::Specials::kAsText);
  const auto& chat = std::get<ChatPrompt>(request.prompt);
  return text::EncodeChat(*options_.tokenizer, chat.conversation, chat.options);
}

Status Intake::CheckTokens(const std::vector<int32_t>& tokens) const {
  if (tokens.empty()) return base::InvalidArgument("the prompt is empty: give at least one token");
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](int32_t token) {
    return token < 0 || token >= options_.vocab;
  });
  if (bad == tokens.end()) return {};
  return base::InvalidArgument(fmt::format("prompt token {} at position {} is not in [0, {})", *bad,
                                           bad - tokens.begin(), options_.vocab));
}

Result<int64_t> Intake::MaxTokens(int64_t asked, int64_t prompt_tokens) const {
  const int64_t room = options_.context_tokens - prompt_tokens;
  if (room < 1) {
    return base::OutOfRange(
        fmt::format("the prompt has {} tokens, but the context of {} must hold at least one more",
                    prompt_tokens, options_.context_tokens));
  }
  if (asked < 0) return room;
  if (asked <= room) return asked;
  return base::OutOfRange(fmt::format(
      "the prompt has {} tokens and max_tokens is {}: together {}, but the context holds {}",
      prompt_tokens, asked, static_cast<uint64_t>(prompt_tokens) + static_cast<uint64_t>(asked),
      options_.context_tokens));
}

Status Intake::FillSampling(uint64_t first_sequence, GenerateRequest* request) const {
  step::SamplingParams& sampling = request->sampling;
  if (!options_.end_tokens.empty()) sampling.end_tokens = options_.end_tokens;
  if (think_begin_ >= 0) {
    sampling.think_begin_token = think_begin_;
    sampling.think_end_token = think_end_;
  }
  sampling.seeded = request->seed.has_value();
  sampling.constrained = !request->so_args.empty();
  sampling.seed = request->seed.value_or(DrawSeed(options_.seed, first_sequence));
  if (request->logits_processor) {
    sampling.logits_processor = fmt::format("request-{}", first_sequence);
  }
  return sampling::Validate(sampling, options_.vocab);
}

bool Intake::EndsInThinking(const std::vector<int32_t>& tokens) const {
  if (think_begin_ < 0) return false;
  const auto last = std::find_if(tokens.rbegin(), tokens.rend(), [&](int32_t token) {
    return token == think_begin_ || token == think_end_;
  });
  return last != tokens.rend() && *last == think_begin_;
}

std::shared_ptr<RequestRecord> Intake::Record(GenerateRequest* request, OutputSink sink,
                                              const std::vector<int32_t>& prompt) const {
  auto record = std::make_shared<RequestRecord>();
  record->id = std::move(request->id);
  record->sink = std::move(sink);
  record->n = request->n;
  record->prompt_tokens = static_cast<int64_t>(prompt.size());
  record->stop = StopStrings(std::move(request->stop));
  record->include_stop = request->include_stop;
  record->skip_special_tokens = request->skip_special_tokens;
  record->min_tokens = request->sampling.min_tokens;
  record->wants_logprobs = request->sampling.logprobs >= 0;
  record->wants_prompt_logprobs = request->sampling.prompt_logprobs >= 0;
  record->think_begin_token = think_begin_;
  record->think_end_token = think_end_;
  record->starts_thinking = EndsInThinking(prompt);
  record->processor = request->sampling.logits_processor;
  return record;
}

sched::Request Intake::Sequence(const GenerateRequest& request, const RequestRecord& record,
                                int32_t i, const std::vector<int32_t>& prompt,
                                int64_t max_tokens) const {
  sched::Request out;
  out.sequence = record.first_sequence + static_cast<uint64_t>(i);
  out.prompt = prompt;
  out.max_tokens = max_tokens;
  out.sampling = request.sampling;
  out.sampling.seed += static_cast<uint64_t>(i);
  out.priority = request.priority;
  out.salt = request.cache_salt;
  out.may_reuse = request.prefix_reuse;
  // Log-probabilities of the prompt need every row in every layer, and no row left out. They are
  // the same for every sequence: the first one brings them, and the others may share its rows.
  if (record.wants_prompt_logprobs) {
    if (i == 0) out.may_reuse = false;
    if (i > 0) out.sampling.prompt_logprobs = -1;
  } else if (options_.decoder_from) {
    out.decoder_from = options_.decoder_from(record.prompt_tokens);
  }
  return out;
}

Result<PreparedRequest> Intake::Prepare(GenerateRequest request, OutputSink sink) const {
  TW_TRY(CheckShape(request));
  TW_TRY(CheckStops(request));
  TW_TRY(CheckPromise(request));
  TW_ASSIGN(const std::vector<int32_t> prompt, PromptTokens(request));
  TW_TRY(CheckTokens(prompt));
  TW_ASSIGN(const int64_t max_tokens,
            MaxTokens(request.max_tokens, static_cast<int64_t>(prompt.size())));
  const uint64_t first = next_sequence_.fetch_add(static_cast<uint64_t>(request.n));
  TW_TRY(FillSampling(first, &request));
  PreparedRequest prepared;
  prepared.record = Record(&request, std::move(sink), prompt);
  prepared.record->first_sequence = first;
  for (int32_t i = 0; i < request.n; ++i) {
    prepared.sequences.push_back(Sequence(request, *prepared.record, i, prompt, max_tokens));
  }
  return prepared;
}

}  // namespace thalweg::engine
