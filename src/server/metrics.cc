#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json.h"

namespace thalweg::server {
namespace {

using base::Json;

// Bounds of vLLM's histograms, for dashboards that show both.
constexpr std::array kFirstTokenBounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08,
                                          0.1,   0.25,  0.5,  0.75, 1.0,  2.5,  5.0,
                                          7.5,   10.0,  20.0, 40.0, 80.0, 160.0};
constexpr std::array kBetweenBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
                                       0.2,   0.3,    0.4,   0.5,  0.75,  1.0,  2.5,   5.0, 10.0};
constexpr std::array kWholeBounds = {0.01, 0.05, 0.1,   0.3,   0.5,   0.8,  1.0,
                                     1.5,  2.0,  2.5,   5.0,   10.0,  15.0, 20.0,
                                     30.0, 60.0, 120.0, 240.0, 480.0, 960.0};
constexpr std::array kEachTokenBounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4,
                                         0.5,  0.75,  1.0,  2.5,   5.0, 7.5,  10.0, 20.0, 40.0};
constexpr std::array kSequenceBounds = {1.0, 2.0, 5.0, 10.0, 20.0};
constexpr std::array kTokenBounds = {1.0,    2.0,     5.0,     10.0,    20.0,    50.0,    100.0,
                                     200.0,  500.0,   1000.0,  2000.0,  5000.0,  10000.0, 20000.0,
                                     50000., 100000., 200000., 500000., 1000000.};

struct EngineRow {
  std::string_view key;   // in MetricsJson; "scheduler." marks the inner object
  std::string_view name;  // what Prometheus sees
  bool counter;
  std::string_view help;
};
constexpr std::array kEngineRows = {
    EngineRow{"scheduler.running", "vllm:num_requests_running", false, "Sequences that run"},
    EngineRow{"scheduler.waiting", "vllm:num_requests_waiting", false, "Sequences that wait"},
    EngineRow{"scheduler.prompt_tokens", "vllm:prefix_cache_queries_total", true,
              "Prompt tokens that were looked up in the prefix cache"},
    EngineRow{"scheduler.hit_tokens", "vllm:prefix_cache_hits_total", true,
              "Prompt tokens that came from the prefix cache"},
    EngineRow{"prompt_tokens", "vllm:prompt_tokens_total", true, "Prompt tokens"},
    EngineRow{"output_tokens", "vllm:generation_tokens_total", true, "Tokens that were generated"},
    EngineRow{"scheduler.preempted", "vllm:num_preemptions_total", true,
              "Sequences that were put back to make room"},
    EngineRow{"scheduler.drafted", "vllm:spec_decode_num_draft_tokens_total", true,
              "Drafts that were verified"},
    EngineRow{"scheduler.accepted", "vllm:spec_decode_num_accepted_tokens_total", true,
              "Drafts that were accepted"},
    EngineRow{"scheduler.replayed_tokens", "thalweg_replayed_tokens_total", true,
              "Cached tokens that were computed again to restore windows"},
    EngineRow{"scheduler.held", "thalweg_sequences_held", false,
              "Sequences that wait for a prefix that another one computes"},
    EngineRow{"scheduler.free_blocks", "thalweg_kv_blocks_free", false, "Blocks without content"},
    EngineRow{"scheduler.cached_blocks", "thalweg_kv_blocks_cached", false,
              "Blocks that hold prefixes and are not in use"},
    EngineRow{"scheduler.used_blocks", "thalweg_kv_blocks_used", false, "Blocks in use"},
    EngineRow{"scheduler.evicted_blocks", "thalweg_kv_blocks_evicted_total", true,
              "Cached blocks that made room"},
    EngineRow{"scheduler.miss_no_block", "thalweg_prefix_miss_no_block_total", true,
              "Lookups that ended at a block that was never cached"},
    EngineRow{"scheduler.miss_no_checkpoint", "thalweg_prefix_miss_no_checkpoint_total", true,
              "Lookups that ended for want of a checkpoint of window state"},
    EngineRow{"scheduler.miss_evicted", "thalweg_prefix_miss_evicted_total", true,
              "Lookups that ended at a block that had been evicted"},
    EngineRow{"scheduler.prefill_rows", "thalweg_prefill_rows_total", true, "Rows of prompts"},
    EngineRow{"scheduler.decode_rows", "thalweg_decode_rows_total", true, "Rows of answers"},
    EngineRow{"steps", "thalweg_steps_total", true, "Steps of the engine"},
    EngineRow{"execute_seconds", "thalweg_execute_seconds_total", true, "Time inside steps"},
    EngineRow{"idle_seconds", "thalweg_idle_seconds_total", true,
              "Time without a step while requests were under way"},
    EngineRow{"constraints.compiled", "thalweg_grammars_compiled_total", true,
              "Grammars that were compiled"},
    EngineRow{"constraints.cache_hits", "thalweg_grammar_cache_hits_total", true,
              "Grammars that were compiled already"},
    EngineRow{"constraints.refused", "thalweg_grammars_refused_total", true,
              "Grammars that were refused"},
    EngineRow{"constraints.mask_seconds", "thalweg_grammar_mask_seconds_total", true,
              "Time spent making masks"},
    EngineRow{"constraints.wait_seconds", "thalweg_grammar_wait_seconds_total", true,
              "Time that sampling waited for masks"},
};

void WriteHead(std::string_view name, std::string_view type, std::string_view help,
               std::string* out) {
  fmt::format_to(std::back_inserter(*out), "# HELP {} {}.\n# TYPE {} {}\n", name, help, name, type);
}

void WriteValue(std::string_view name, std::string_view labels, double value, std::string* out) {
  fmt::format_to(std::back_inserter(*out), "{}{{{}}} {}\n", name, labels, value);
}

// Null when the engine does not count it.
const Json* Find(const Json& metrics, std::string_view key) {
  const size_t dot = key.find('.');
  if (dot == std::string_view::npos) {
    const auto at = metrics.find(key);
    return at == metrics.end() ? nullptr : &*at;
  }
  const auto inner = metrics.find(key.substr(0, dot));
  if (inner == metrics.end()) return nullptr;
  const auto at = inner->find(key.substr(dot + 1));
  return at == inner->end() ? nullptr : &*at;
}

double Number(const Json& metrics, std::string_view key) {
  const Json* value = Find(metrics, key);
  return value != nullptr && value->is_number() ? value->get<double>() : 0;
}

// A label's value with what Prometheus reserves escaped.
std::string LabelValue(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void AddTo(std::atomic<double>* sum, double value) {
  double before = sum->load(std::memory_order_relaxed);
  while (!sum->compare_exchange_weak(before, before + value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void Histogram::Observe(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<size_t>(at - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  AddTo(&sum_, value);
}

void Histogram::Write(std::string_view name, std::string_view help, std::string_view labels,
                      std::string* out) const {
  WriteHead(name, "histogram", help, out);
  auto to = std::back_inserter(*out);
  uint64_t count = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    fmt::format_to(to, "{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], count);
  }
  count += counts_.back().load(std::memory_order_relaxed);
  fmt::format_to(to, "{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, count);
  fmt::format_to(to, "{}_sum{{{}}} {}\n", name, labels, sum_.load(std::memory_order_relaxed));
  fmt::format_to(to, "{}_count{{{}}} {}\n", name, labels, count);
}

Metrics::Metrics(std::string model_name)
    : model_label_(fmt::format("model_name=\"{}\",engine=\"0\"", LabelValue(model_name))),
      first_token_(kFirstTokenBounds),
      between_tokens_(kBetweenBounds),
      whole_(kWholeBounds),
      queue_(kWholeBounds),
      prefill_(kWholeBounds),
      decode_(kWholeBounds),
      running_(kWholeBounds),
      each_token_(kEachTokenBounds),
      prompt_tokens_(kTokenBounds),
      computed_tokens_(kTokenBounds),
      generation_tokens_(kTokenBounds),
      asked_tokens_(kTokenBounds),
      asked_sequences_(kSequenceBounds) {}

void Metrics::OnTokens(const RequestMetrics& times, int64_t tokens, double since) {
  if (since < 0) {
    first_token_.Observe(times.first_token_at - times.submitted_at);
    return;
  }
  // Tokens that came together: each took its share.
  for (int64_t i = 0; i < tokens; ++i) between_tokens_.Observe(since / static_cast<double>(tokens));
}

void Metrics::OnAbort(std::string_view cause) {
  const std::scoped_lock lock(mutex_);
  ++aborts_[std::string(cause)];
}

void Metrics::OnFinish(std::string_view reason) {
  const std::scoped_lock lock(mutex_);
  ++finishes_[reason == "cancelled" ? std::string("abort") : std::string(reason)];
}

void Metrics::OnAsked(const SamplingParams& params) {
  if (params.max_tokens.has_value()) asked_tokens_.Observe(static_cast<double>(*params.max_tokens));
  asked_sequences_.Observe(params.n);
}

// What never began to run, or brought no token, has no such times.
void Metrics::OnSequence(const SequenceFigures& figures) {
  const RequestMetrics& times = figures.times;
  whole_.Observe(times.last_token_at - times.submitted_at);
  prompt_tokens_.Observe(static_cast<double>(figures.prompt));
  generation_tokens_.Observe(static_cast<double>(figures.tokens));
  if (times.admitted_at <= 0) return;
  queue_.Observe(times.admitted_at - times.submitted_at);
  running_.Observe(times.last_token_at - times.admitted_at);
  computed_tokens_.Observe(static_cast<double>(figures.prompt - figures.cached));
  if (figures.tokens == 0) return;
  prefill_.Observe(times.first_token_at - times.admitted_at);
  decode_.Observe(times.last_token_at - times.first_token_at);
  if (figures.tokens > 1) {
    each_token_.Observe((times.last_token_at - times.first_token_at) /
                        static_cast<double>(figures.tokens - 1));
  }
}

void Metrics::OnResponse(const RequestRecord& record) {
  const std::scoped_lock lock(mutex_);
  ++responses_[{record.path, record.status}];
}

// {"bounds": [...], "steps": [..., all], "rows": n}: a histogram that the engine keeps.
void Metrics::WriteStepRows(const Json& rows, std::string* out) const {
  constexpr std::string_view kName = "vllm:iteration_tokens_total";
  WriteHead(kName, "histogram", "Rows of a step: tokens of prompts and of answers", out);
  auto to = std::back_inserter(*out);
  const std::vector<uint64_t> steps = rows["steps"];
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    fmt::format_to(to, "{}_bucket{{{},le=\"{}\"}} {}\n", kName, model_label_,
                   rows["bounds"][i].get<int64_t>(), steps[i]);
  }
  fmt::format_to(to,
                 "{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_count{{{1}}} {2}\n{0}_sum{{{1}}} {3}\n",
                 kName, model_label_, steps.back(), rows["rows"].get<uint64_t>());
}

void Metrics::WriteEngine(std::string_view engine, std::string* out) const {
  const auto parsed = base::ParseJson(engine, "metrics of the engine");
  if (!parsed.ok()) return;
  for (const EngineRow& row : kEngineRows) {
    if (Find(*parsed, row.key) == nullptr) continue;
    WriteHead(row.name, row.counter ? "counter" : "gauge", row.help, out);
    WriteValue(row.name, model_label_, Number(*parsed, row.key), out);
  }
  const double used = Number(*parsed, "scheduler.used_blocks");
  const double all =
      used + Number(*parsed, "scheduler.free_blocks") + Number(*parsed, "scheduler.cached_blocks");
  WriteHead("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 0 to 1", out);
  WriteValue("vllm:kv_cache_usage_perc", model_label_, all > 0 ? used / all : 0, out);
  if (const Json* rows = Find(*parsed, "step_rows")) WriteStepRows(*rows, out);
}

void Metrics::WriteHistograms(std::string* out) const {
  struct Row {
    const Histogram* histogram;
    std::string_view name, help;
  };
  const std::array rows = {
      Row{&first_token_, "time_to_first_token_seconds", "Time to the first token"},
      Row{&between_tokens_, "inter_token_latency_seconds", "Time between tokens"},
      Row{&between_tokens_, "time_per_output_token_seconds",
          "Time between tokens, under the name of earlier dashboards"},
      Row{&each_token_, "request_time_per_output_token_seconds",
          "Mean time between the tokens of a sequence"},
      Row{&whole_, "e2e_request_latency_seconds", "Time from arrival to the last token"},
      Row{&queue_, "request_queue_time_seconds", "Time from arrival until it runs"},
      Row{&running_, "request_inference_time_seconds",
          "Time from the first step to the last token"},
      Row{&prefill_, "request_prefill_time_seconds", "Time from the first step to the first token"},
      Row{&decode_, "request_decode_time_seconds", "Time from the first token to the last"},
      Row{&prompt_tokens_, "request_prompt_tokens", "Tokens of prompts"},
      Row{&computed_tokens_, "request_prefill_kv_computed_tokens",
          "Tokens of prompts that did not come from the cache"},
      Row{&generation_tokens_, "request_generation_tokens", "Tokens of answers"},
      Row{&asked_tokens_, "request_params_max_tokens", "Tokens that were asked for at most"},
      Row{&asked_sequences_, "request_params_n", "Sequences that were asked for"},
  };
  for (const Row& row : rows)
    row.histogram->Write(fmt::format("vllm:{}", row.name), row.help, model_label_, out);
}

void Metrics::WriteServer(int64_t under_way, std::string* out) const {
  const std::scoped_lock lock(mutex_);
  auto to = std::back_inserter(*out);
  WriteHead("vllm:request_success_total", "counter", "Sequences that ended, by reason", out);
  for (const auto& [reason, count] : finishes_) {
    fmt::format_to(to, "vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", model_label_,
                   reason, count);
  }
  WriteHead("thalweg_aborts_total", "counter", "Requests and connections given up, by cause", out);
  for (const auto& [cause, count] : aborts_)
    fmt::format_to(to, "thalweg_aborts_total{{cause=\"{}\"}} {}\n", cause, count);
  WriteHead("thalweg_http_responses_total", "counter", "Responses, by path and status", out);
  for (const auto& [key, count] : responses_) {
    fmt::format_to(to, "thalweg_http_responses_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first,
                   key.second, count);
  }
  WriteHead("thalweg_tool_parse_failures_total", "counter",
            "Calls of tools that were cut off or had to be mended", out);
  fmt::format_to(to, "thalweg_tool_parse_failures_total {}\n", tool_faults_.load());
  WriteHead("thalweg_tool_grammars_relaxed_total", "counter",
            "Requests whose tools have schemas that no grammar can enforce", out);
  fmt::format_to(to, "thalweg_tool_grammars_relaxed_total {}\n", relaxed_.load());
  WriteHead("thalweg_http_requests_under_way", "gauge", "Requests under way", out);
  fmt::format_to(to, "thalweg_http_requests_under_way {}\n", under_way);
  WriteHead("thalweg_http_connections", "gauge", "Open connections", out);
  fmt::format_to(to, "thalweg_http_connections {}\n", connections_.load());
}

std::string Metrics::Text(std::string_view engine, int64_t under_way) const {
  std::string out;
  WriteEngine(engine, &out);
  WriteHistograms(&out);
  WriteServer(under_way, &out);
  return out;
}

}  // namespace thalweg::server
