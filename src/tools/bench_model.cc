#include "tools/bench_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/json.h"
#include "base/rng.h"
#include "tools/generate.h"

namespace thalweg::tools {
namespace {

double Seconds(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Any ids serve: the work does not depend on their meaning.
std::vector<int32_t> RandomIds(int64_t count, int64_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = base::Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {7, 7})[0];
    ids.push_back(static_cast<int32_t>(word % static_cast<uint64_t>(vocab)));
  }
  return ids;
}

struct Timing {
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

Result<double> TimeDecode(model::Model& model, const std::vector<ScopedSequence>& sequences,
                          int64_t steps) {
  model::StepOutput output;
  const int32_t token = static_cast<int32_t>(model.config().vocab_size / 2);
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<model::Chunk> chunks;
    for (const ScopedSequence& s : sequences)
      chunks.push_back({.sequence = s.id(), .tokens = {&token, 1}});
    TW_TRY(model.Step(chunks, &output));
  }
  return Seconds(begin);
}

Result<Timing> TimeOnce(model::Model& model, const model::Replay& replay,
                        const BenchModelOptions& options) {
  const std::vector<int32_t> prompt =
      RandomIds(options.prompt_tokens, model.config().vocab_size / 2);
  const int64_t decoder_from = replay.DecoderFrom(options.prompt_tokens, model.config());
  std::vector<ScopedSequence> sequences;
  model::StepOutput output;
  Timing timing;
  for (int64_t b = 0; b < options.batch; ++b) {
    TW_ASSIGN(ScopedSequence sequence, ScopedSequence::Open(model));
    const auto begin = std::chrono::steady_clock::now();
    TW_TRY(Prefill(model, sequence.id(), prompt, decoder_from, &output));
    timing.prefill_seconds += Seconds(begin) / static_cast<double>(options.batch);
    sequences.push_back(std::move(sequence));
  }
  TW_ASSIGN(timing.decode_seconds, TimeDecode(model, sequences, options.decode_tokens));
  return timing;
}

}  // namespace

Status BenchModel(Session& session, const model::Replay& replay, const BenchModelOptions& options) {
  std::vector<double> prefill;
  std::vector<double> decode;
  for (int i = 0; i <= options.repeats; ++i) {
    TW_ASSIGN(const Timing timing, TimeOnce(*session.model, replay, options));
    if (i == 0) continue;  // the first pass reads the weights in
    prefill.push_back(static_cast<double>(options.prompt_tokens) / timing.prefill_seconds);
    decode.push_back(static_cast<double>(options.decode_tokens * options.batch) /
                     timing.decode_seconds);
  }
  if (options.json) {
    const base::Json json = {{"backend", session.model->options().ops->name},
                             {"threads", session.team->size()},
                             {"prompt_tokens", options.prompt_tokens},
                             {"batch", options.batch},
                             {"prefill_tokens_per_second", Median(prefill)},
                             {"decode_tokens_per_second", Median(decode)}};
    fmt::print("{}\n", json.dump());
    return {};
  }
  fmt::print("backend {}, {} threads, prompt {} tokens, {} sequences\n",
             session.model->options().ops->name, session.team->size(), options.prompt_tokens,
             options.batch);
  fmt::print("prefill  {:10.1f} tok/s\ndecode   {:10.1f} tok/s\n", Median(prefill), Median(decode));
  return {};
}

}  // namespace thalweg::tools
