#include "sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sampling/choose.h"
#include "sampling/logprobs.h"
#include "sampling/process.h"

namespace thalweg::sampling {

struct Scratch::Buffers {
  ChooseBuffers choose = {};
  std::vector<float> raw = {};   // untouched logits, when they are changed and wanted
  std::vector<float> kept = {};  // logits of allowed tokens
};

namespace {

bool Present(const Processor* processor) { return processor != nullptr && *processor; }
bool Allows(const TokenMask& mask, int32_t token) {
  const auto t = static_cast<size_t>(token);
  return mask.words.empty() || (mask.words[t / 32] >> (t % 32) & 1) != 0;
}

// The best of the model's logits, which must be numbers.
Result<Entry> BestOfModel(std::span<const float> logits) {
  const RowSummary row = Summarise(logits);
  if (!std::isfinite(row.best.logit) || row.nan)
    return base::Internal("the logits of the model are not finite");
  return row.best;
}

// The best of what parameters, mask and processor left; its logit is -inf when that is nothing.
Result<Entry> BestOfProcessed(const Row& row) {
  const RowSummary left = Summarise(row.logits);
  if (left.nan || left.best.logit == INFINITY) {
    return base::InvalidArgument(Present(row.processor)
                                     ? "logits_processor made logits that are not finite"
                                     : "the penalties made logits that are not finite");
  }
  return left.best;
}

Status NothingLeft(const Row& row) {
  return base::InvalidArgument(
      fmt::format("no token is left to choose: {} exclude every one; allow more of them",
                  ExcludingParameters(row)));
}

// One row on its way from logits to a sample.
class RowSampler {
 public:
  RowSampler(const Row& row, Scratch::Buffers* buffers)
      : row_(row), state_(*row.state), params_(row.state->params()), b_(*buffers) {}

  Status Sample(RowSample* sample) {
    TW_ASSIGN(const Entry best, BestOfModel(row_.logits));
    const bool changed =
        state_.changes_logits() || Present(row_.processor) || !row_.mask.words.empty();
    sample->forced = state_.must_end_thinking();
    std::span<const float> raw = row_.logits;
    if (sample->forced) {
      TW_TRY(Force(params_.think_end_token, sample));
    } else if (!changed) {
      sample->token = Draw(raw, best);
    } else {
      raw = KeepRaw();
      TW_TRY(ProcessAndChoose(sample));
      if (sample->fulfilled) return {};
    }
    sample->end = state_.EndOf(sample->token);
    if (params_.logprobs >= 0) FillSampleLogprobs(raw, best, sample);
    return {};
  }

 private:
  int32_t Draw(std::span<const float> logits, Entry best) {
    if (row_.chooser != nullptr) return (*row_.chooser)(logits, best);
    return Choose(logits, best, params_, row_.position, &b_.choose);
  }

  std::span<const float> KeepRaw() {
    if (params_.logprobs >= 0) b_.raw.assign(row_.logits.begin(), row_.logits.end());
    return b_.raw;
  }

  Status Force(int32_t token, RowSample* sample) {
    sample->token = token;
    if (Allows(row_.mask, token)) return {};
    return base::InvalidArgument(
        "thinking_budget is used up, but so_args does not allow the end of the reasoning here: let "
        "the constraint start after </think>");
  }

  Status ProcessAndChoose(RowSample* sample) {
    TW_TRY(ProcessLogits(row_, &b_.kept));
    TW_ASSIGN(const Entry best, BestOfProcessed(row_));
    if (best.logit == -INFINITY) {
      if (!row_.mask.complete) return NothingLeft(row_);
      sample->fulfilled = true;
      return {};
    }
    sample->token = Draw(row_.logits, best);
    return {};
  }

  void FillSampleLogprobs(std::span<const float> raw, Entry best, RowSample* sample) {
    FillLogprobs(raw, best.logit, sample->token, params_.logprobs, &b_.choose.candidates,
                 &sample->logprobs);
  }

  const Row& row_;
  const SequenceState& state_;
  const step::SamplingParams& params_;
  Scratch::Buffers& b_;
};

}  // namespace

Scratch::Scratch() : buffers_(std::make_unique<Buffers>()) {}
Scratch::~Scratch() = default;

std::unique_ptr<Scratch> ScratchPool::Take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(free_.back());
  free_.pop_back();
  return scratch;
}

void ScratchPool::Give(std::unique_ptr<Scratch> scratch) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(scratch));
}

Result<RowSample> SampleRow(const Row& row, Scratch* scratch) {
  TW_CHECK(static_cast<int64_t>(row.logits.size()) == row.state->vocab());
  TW_CHECK(row.mask.words.empty() || row.mask.words.size() == (row.logits.size() + 31) / 32);
  RowSample sample;
  const Status status = RowSampler(row, &scratch->buffers()).Sample(&sample);
  if (!status.ok()) return status.WithContext(fmt::format("position {}", row.position));
  return sample;
}

Result<RowSample> SampleRow(std::span<float> logits, const SequenceState& state, int64_t position,
                            const Processor* processor, Scratch* scratch) {
  return SampleRow(
      {.logits = logits, .state = &state, .position = position, .processor = processor}, scratch);
}

void SampleRows(const base::ThreadTeam& team, std::span<const Row> rows, ScratchPool* pool,
                std::vector<Result<RowSample>>* results) {
  results->assign(rows.size(), RowSample{});
  const auto sample = [&](int64_t begin, int64_t end, bool processors) {
    std::unique_ptr<Scratch> scratch = pool->Take();
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const Row& r = rows[i];
      if (Present(r.processor) != processors) continue;
      (*results)[i] = SampleRow(r, scratch.get());
    }
    pool->Give(std::move(scratch));
  };
  const auto count = static_cast<int64_t>(rows.size());
  team.ParallelFor(count, 1, [&](int64_t begin, int64_t end) { sample(begin, end, false); });
  sample(0, count, true);
}

Result<step::PositionLogprobs> PromptLogprobs(std::span<const float> logits, int32_t next,
                                              int32_t top) {
  TW_CHECK(next >= 0 && next < static_cast<int64_t>(logits.size()));
  TW_ASSIGN(const Entry best, BestOfModel(logits));
  std::vector<Entry> entries;
  step::PositionLogprobs result;
  FillLogprobs(logits, best.logit, next, top, &entries, &result);
  return result;
}

double LogProbability(std::span<const float> logits, int32_t token) {
  const float best = Highest(logits);
  return static_cast<double>(logits[static_cast<size_t>(token)]) - static_cast<double>(best) -
         LogSumExp(logits, best);
}

}  // namespace thalweg::sampling
