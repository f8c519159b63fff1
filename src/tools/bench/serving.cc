#include "tools/bench/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/mapped_file.h"

namespace thalweg::tools::bench {
namespace {

constexpr uint64_t kMostTextBytes = 256u << 20;

// What came of the requests so far. Sinks write, the sender waits.
class Collector {
 public:
  explicit Collector(size_t requests) : last_at_(requests, -1), answers_(requests) {}

  void Sent() {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  void Refused() {
    const std::lock_guard lock(mutex_);
    --under_way_;
  }

  void Take(size_t request, const engine::Output& output) {
    const std::lock_guard lock(mutex_);
    TakeTokens(request, output);
    Answers::value_type& answer = answers_[request];
    for (const engine::TokenOutput& token : output.tokens) answer.push_back(token.id);
    if (output.finish == engine::FinishReason::kNone) return;
    if (output.finish == engine::FinishReason::kError && error_.ok()) error_ = output.status;
    ends_.push_back(output.at - output.submitted_at);
    first_submit_ = std::min(first_submit_, output.submitted_at);
    last_end_ = std::max(last_end_, output.at);
    --under_way_;
    changed_.notify_all();
  }

  // Returns when fewer than `most` requests are under way, or one has failed.
  Status WaitUntilBelow(int64_t most) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return under_way_ < most; });
    return error_;
  }

  Answers& answers() { return answers_; }
  double seconds() const { return std::max(last_end_ - first_submit_, 1e-9); }

  void AddTo(std::vector<Figure>* figures) {
    AddPercentiles("ttft", firsts_, figures);
    AddPercentiles("itl", gaps_, figures);
    AddPercentiles("end_to_end", ends_, figures);
  }

 private:
  // Tokens that come together share the time since the last ones.
  void TakeTokens(size_t request, const engine::Output& output) {
    if (output.tokens.empty()) return;
    const size_t count = output.tokens.size();
    double& last = last_at_[request];
    if (last < 0) {
      firsts_.push_back(output.first_token_at - output.submitted_at);
      last = output.first_token_at;
      if (count > 1) AddGaps(output.at - last, count - 1);
    } else {
      AddGaps(output.at - last, count);
    }
    last = output.at;
  }
  void AddGaps(double seconds, size_t count) {
    gaps_.insert(gaps_.end(), count, seconds / static_cast<double>(count));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t under_way_ = 0;
  Status error_;
  double first_submit_ = 1e300;
  double last_end_ = 0;
  std::vector<double> last_at_;  // of each request's newest token; < 0: none yet
  std::vector<double> firsts_, gaps_, ends_;
  Answers answers_;
};

engine::GenerateRequest RequestOf(const LoadRequest& r, const LoadOptions& options, size_t number) {
  engine::GenerateRequest request;
  request.prompt = r.prompt;
  request.max_tokens = r.output_tokens;
  request.sampling.temperature = options.temperature;
  request.so_args = options.so_args;
  request.sampling.ignore_eos = options.ignore_eos;
  request.seed = options.seed + number;
  return request;
}

// Each request at its time, or when there is room for it.
Status Send(engine::Engine& engine, const LoadOptions& options, std::span<const LoadRequest> load,
            Collector* collector) {
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < load.size(); ++i) {
    if (options.rate_per_s > 0) {
      std::this_thread::sleep_until(start + std::chrono::duration<double>(load[i].at_s));
    } else {
      TW_TRY(collector->WaitUntilBelow(options.concurrency));
    }
    collector->Sent();
    const Result<std::string> id =
        engine.Submit(RequestOf(load[i], options, i),
                      [collector, i](const engine::Output& o) { collector->Take(i, o); });
    if (id.ok()) continue;
    collector->Refused();
    return id.status().WithContext(fmt::format("request {}", i));
  }
  return {};
}

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

template <typename Number>
double Grown(Number before, Number after) {
  return static_cast<double>(after - before);
}

void AddEngineFigures(const engine::Metrics& a, const engine::Metrics& b, int64_t max_sequences,
                      std::vector<Figure>* out) {
  const double steps = Grown(a.steps, b.steps);
  const double prefill = Grown(a.scheduler.prefill_rows, b.scheduler.prefill_rows);
  const double decode = Grown(a.scheduler.decode_rows, b.scheduler.decode_rows);
  const double execute_s = b.execute_seconds - a.execute_seconds;
  const double idle_s = b.idle_seconds - a.idle_seconds;
  const double schedule_s = b.schedule_seconds - a.schedule_seconds;
  const double prompt = Grown(a.scheduler.prompt_tokens, b.scheduler.prompt_tokens);
  out->push_back({"steps", steps});
  out->push_back({"rows_per_step", Ratio(prefill + decode, steps)});
  out->push_back({"prefill_rows_per_step", Ratio(prefill, steps)});
  out->push_back({"decode_rows_per_step", Ratio(decode, steps)});
  out->push_back({"decode_occupancy", Ratio(decode, steps * static_cast<double>(max_sequences))});
  out->push_back(
      {"hit_rate", Ratio(Grown(a.scheduler.hit_tokens, b.scheduler.hit_tokens), prompt)});
  out->push_back(
      {"replayed_tokens", Grown(a.scheduler.replayed_tokens, b.scheduler.replayed_tokens)});
  out->push_back({"preempted", Grown(a.scheduler.preempted, b.scheduler.preempted)});
  out->push_back({"drafted", Grown(a.scheduler.drafted, b.scheduler.drafted)});
  out->push_back({"accepted", Grown(a.scheduler.accepted, b.scheduler.accepted)});
  out->push_back({"execute_ms_per_step", 1e3 * Ratio(execute_s, steps)});
  out->push_back({"schedule_us_per_step", 1e6 * Ratio(schedule_s, steps)});
  out->push_back({"executor_busy", Ratio(execute_s, execute_s + idle_s)});
}

// Ids of the text that prompts are cut from; empty without --prompt-text.
Result<std::vector<int32_t>> PromptText(const std::string& path, const text::Tokenizer* tokenizer) {
  if (path.empty()) return std::vector<int32_t>();
  TW_ASSIGN(const std::string content, base::ReadFile(path, kMostTextBytes));
  std::string text = path.ends_with(".jsonl") ? "" : content;
  std::string_view lines = path.ends_with(".jsonl") ? content : std::string_view();
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    TW_ASSIGN(const base::Json line, base::ParseJson(lines.substr(0, end), path, {}));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (!line.is_object() || !line.contains("text") || !line["text"].is_string())
      return base::InvalidArgument(fmt::format("--prompt-text: a line of {} has no text", path));
    text += line["text"].get<std::string>();
  }
  std::vector<int32_t> ids = tokenizer->Encode(text, text::Specials::kAsText);
  if (ids.empty()) return base::InvalidArgument(fmt::format("--prompt-text: {} is empty", path));
  return ids;
}

// A few requests of their own prompts, so that threads, pages and caches are warm.
Status WarmUp(engine::Engine& engine, LoadOptions options, int64_t vocab) {
  options.requests = std::min<int64_t>(options.requests, 4);
  options.concurrency = options.requests;
  options.rate_per_s = 0;
  options.seed = ~options.seed;
  TW_ASSIGN(const std::vector<LoadRequest> load, MakeLoad(options, vocab, {}));
  return BenchServing(engine, options, load).status();
}

void Print(const std::vector<Figure>& figures, const base::OptionValues& values) {
  if (values.Flag("json")) {
    fmt::print("{}\n", ToJson(figures).dump(2));
  } else {
    fmt::print("{}", values.Flag("csv") ? ToCsv(figures) : ToTable(figures));
  }
}

}  // namespace

Result<std::vector<Figure>> BenchServing(engine::Engine& engine, const LoadOptions& options,
                                         std::span<const LoadRequest> load, Answers* answers) {
  Collector collector(load.size());
  const engine::Metrics before = engine.metrics();
  const Status sent = Send(engine, options, load, &collector);
  const Status answered = collector.WaitUntilBelow(1);
  TW_TRY(sent);
  TW_TRY(answered);
  const engine::Metrics after = engine.metrics();

  const double prompt = Grown(before.prompt_tokens, after.prompt_tokens);
  const double output = Grown(before.output_tokens, after.output_tokens);
  const double seconds = collector.seconds();
  std::vector<Figure> figures = {{"requests", static_cast<double>(load.size())},
                                 {"seconds", seconds},
                                 {"requests_per_s", static_cast<double>(load.size()) / seconds},
                                 {"prompt_tokens", prompt},
                                 {"output_tokens", output},
                                 {"prompt_tok_per_s", prompt / seconds},
                                 {"output_tok_per_s", output / seconds},
                                 {"total_tok_per_s", (prompt + output) / seconds}};
  collector.AddTo(&figures);
  AddEngineFigures(before, after, engine.options().max_sequences, &figures);
  if (answers != nullptr) *answers = std::move(collector.answers());
  return figures;
}

Status BenchServingCommand(ServingKind kind, const base::OptionValues& values) {
  const bool throughput = kind == ServingKind::kThroughput;
  if (values.Flag("json") && values.Flag("csv"))
    return base::InvalidArgument("--json and --csv are two formats: leave one of them out");
  TW_ASSIGN(const engine::EngineOptions engine_options, engine::EngineOptions::From(values));
  TW_ASSIGN(LoadOptions options,
            LoadOptions::From(values, throughput ? engine_options.max_sequences : 1));
  options.requests = values.OptionalInteger("requests").value_or(throughput ? 256 : 32);
  TW_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::Load(engine_options));
  const int64_t vocab = engine->config()->vocab_size;
  TW_ASSIGN(const std::vector<int32_t> text,
            PromptText(values.Text("prompt-text"), engine->tokenizer()));
  TW_ASSIGN(const std::vector<LoadRequest> load, MakeLoad(options, vocab, text));
  TW_TRY(WarmUp(*engine, options, vocab));
  TW_ASSIGN(const std::vector<Figure> figures, BenchServing(*engine, options, load));
  Print(figures, values);
  return {};
}

}  // namespace thalweg::tools::bench
