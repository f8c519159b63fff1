#include "tests/simulator/simulation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "engine/intake.h"
#include "engine/output_stage.h"
#include "engine/planner.h"
#include "tests/simulator/fake_device.h"
#include "text/test_tokenizer.h"

namespace thalweg::tests {
namespace {

using engine::FinishReason;
using engine::GenerateRequest;
using engine::Output;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int32_t kEndToken = 3;
constexpr int64_t kMaxOpen = 24;          // sequences that may be under way
constexpr int64_t kStepsToDrain = 20000;  // more than any backlog of kMaxOpen takes

// A check that fails ends the program: the seed must be on the screen by then.
char seed_line[64] = {};

void NameSeedOnAbort(uint64_t seed) {
  const std::string line = fmt::format("simulation with seed {}\n", seed);
  line.copy(seed_line, sizeof(seed_line) - 1);
  seed_line[line.size()] = '\0';
  std::signal(SIGABRT, [](int) {
    if (write(STDERR_FILENO, seed_line, std::strlen(seed_line)) < 0) return;
  });
}

// Tokens of the fake model are bytes of text.
const text::Tokenizer& Bytes() {
  static const text::Tokenizer tokenizer = [] {
    auto parsed = text::Tokenizer::Parse(text::ByteLevelJson({}, {}).dump());
    TW_CHECK(parsed.ok());
    return std::move(*parsed);
  }();
  return tokenizer;
}

template <typename T>
T OneOf(Script* script, std::initializer_list<T> values) {
  return values.begin()[script->Below(static_cast<int64_t>(values.size()))];
}

sched::SchedulerOptions RandomOptions(Script* script) {
  sched::SchedulerOptions o;
  o.max_sequences = 1 + script->Below(8);
  o.max_rows = OneOf<int64_t>(script, {8, 64, 130, 512});
  o.context_tokens = 420;
  o.blocks = 7 + script->Below(24);
  o.checkpoints = OneOf<int64_t>(script, {0, 1, 4, 20});
  o.checkpoint_interval_tokens = OneOf<int64_t>(script, {64, 128, 512});
  o.prefix_reuse = !script->OneIn(5);
  if (script->OneIn(6)) o.exactness = sched::PrefixExactness::kBounded;
  o.reach = {.window = OneOf<int64_t>(script, {1, 4, 8, 16}),
             .encoder_layers = 2,
             .window_layers = 4,
             .draft = script->OneIn(2)};
  o.admission_growth = script->OneIn(2) ? 1 : 0.1;
  o.max_prefills = 1 + script->Below(4);
  o.ageing_steps = OneOf<int64_t>(script, {1, 16, 256});
  o.overlap_depth = script->Below(4);
  o.draft_tokens = script->OneIn(2) ? 0 : 1 + script->Below(6);
  o.preempt_every = script->OneIn(2) ? 0 : static_cast<uint64_t>(2 + script->Below(30));
  return o;
}

// One sequence as its user sees it.
struct Observed {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<step::PositionLogprobs> prompt_logprobs;
  bool ended = false;
};

// A request that was submitted, with what it may expect.
struct Submitted {
  GenerateRequest request;
  int64_t decoder_from = 0;
  int64_t max_tokens = 0;
  uint64_t submitted_step = 0;
  bool cancelled = false;
  std::vector<Observed> sequences;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed)
      : script_(seed),
        options_(RandomOptions(&script_)),
        keep_(script_.OneIn(2) ? 40 : 1000),
        intake_(IntakeOptions()),
        planner_(options_),
        trace_(engine::Trace::Open("").value()),
        stage_(&Bytes(), &telemetry_, trace_.get(), Calls()),
        device_(options_, {.steps = script_.OneIn(3) ? 200 : 0,
                           .sequences = script_.OneIn(3) ? 500 : 0,
                           .seed = seed}) {}

  SimulationReport Run(uint64_t steps) {
    while (report_.problem.empty() && report_.steps < steps) Event(true);
    for (int64_t i = 0; report_.problem.empty() && (planner_.working() || !reports_.empty()); ++i) {
      if (i == kStepsToDrain) Problem("requests do not come to an end");
      Event(false);
    }
    if (report_.problem.empty()) CheckEmpty();
    return report_;
  }

 private:
  engine::IntakeOptions IntakeOptions() const {
    engine::IntakeOptions options;
    options.tokenizer = &Bytes();
    options.vocab = Bytes().vocab_size();
    options.context_tokens = std::min(options_.context_tokens, options_.blocks * 64);
    options.decoder_from = [keep = keep_](int64_t prompt) {
      return std::max<int64_t>(0, prompt - keep);
    };
    return options;
  }

  engine::OutputCalls Calls() {
    return {.stop = [this](uint64_t sequence) { stops_.push_back(sequence); },
            .ending = [](const engine::RequestRecord&) {},
            .ended =
                [this](const engine::RequestRecord& record) {
                  open_ -= record.n;
                  requests_.erase(record.id);
                }};
  }

  void Problem(std::string what) {
    if (report_.problem.empty()) report_.problem = std::move(what);
  }

  // ---- Time: arrivals, cancellations and completions happen in their order.

  void Event(bool arrivals) {
    const int64_t arrival = arrivals && open_ < kMaxOpen ? next_arrival_ : kNever;
    const int64_t cancel = requests_.empty() ? kNever : next_cancel_;
    const int64_t done = flight_.empty() ? kNever : flight_.front().second;
    engine::Report report;
    ApplyStops(&report);
    if (done <= std::min(arrival, cancel)) {
      if (done != kNever) Complete(&report);
    } else if (arrival <= cancel) {
      now_ = std::max(now_, arrival);
      Submit(&report);
      next_arrival_ = now_ + script_.Below(script_.OneIn(4) ? 4000 : 200);
    } else {
      now_ = std::max(now_, cancel);
      Cancel(&report);
      next_cancel_ = now_ + script_.Below(8000);
    }
    Plan(&report);
    Tell(std::move(report));
    Audit();
  }

  // A stop string is found when output gets to it; the scheduler hears of it later still.
  void ApplyStops(engine::Report* report) {
    if (script_.OneIn(2)) return;
    for (const uint64_t sequence : std::exchange(stops_, {}))
      planner_.Apply(engine::StopCommand{.first_sequence = sequence}, report);
  }

  void Complete(engine::Report* report) {
    now_ = flight_.front().second;
    std::unique_ptr<engine::Job> job = std::move(flight_.front().first);
    flight_.pop_front();
    job->result = {.number = job->plan.number};
    device_.Execute(job->plan, &job->result);
    ++report_.steps;
    planner_.Advance(std::move(job), report);
  }

  void Plan(engine::Report* report) {
    while (true) {
      auto job = std::make_unique<engine::Job>();
      if (!planner_.Plan(job.get(), report)) break;
      CheckPlan(job->plan);
      const int64_t latency = 1 + script_.Below(script_.OneIn(20) ? 2000 : 100);
      device_free_ = std::max(device_free_, now_) + latency;
      flight_.emplace_back(std::move(job), device_free_);
    }
    if (planner_.Stuck()) Problem("requests wait though nothing is under way");
    planner_.TakeEvents(report);
  }

  // Output lags behind, now more, now less.
  void Tell(engine::Report report) {
    if (!report.empty()) reports_.push_back(std::move(report));
    if (script_.OneIn(3) && !flight_.empty()) return;
    for (const engine::Report& r : reports_) stage_.Handle(r);
    reports_.clear();
    stage_.Deliver();
  }

  // ---- Requests.

  GenerateRequest RandomRequest() {
    GenerateRequest request;
    // Few beginnings, cut anywhere, so that requests share prefixes of all lengths.
    const int64_t family = script_.Below(4);
    const int64_t length = 1 + script_.Below(script_.OneIn(3) ? 330 : 150);
    std::vector<int32_t> prompt;
    for (int64_t i = 0; i < length; ++i)
      prompt.push_back(static_cast<int32_t>((i * 7 + family * i) % 40));
    if (script_.OneIn(2)) prompt.back() += 5;
    request.prompt = std::move(prompt);
    request.max_tokens = 1 + script_.Below(script_.OneIn(4) ? 90 : 12);
    request.seed = static_cast<uint64_t>(script_.Below(3));
    request.n = script_.OneIn(6) ? 3 : 1;
    if (script_.OneIn(2)) request.sampling.end_tokens = {kEndToken};
    if (script_.OneIn(8)) request.sampling.prompt_logprobs = 0;
    if (script_.OneIn(3))
      request.stop = {std::string(1, static_cast<char>(32 + script_.Below(18))), "0!"};
    request.include_stop = script_.OneIn(2);
    request.priority = static_cast<int>(script_.Below(3)) - 1;
    request.cache_salt = script_.OneIn(4) ? "other" : "";
    request.prefix_reuse = !script_.OneIn(10);
    return request;
  }

  void Submit(engine::Report* report) {
    GenerateRequest request = RandomRequest();
    request.id = fmt::format("{}", ++submitted_);
    auto prepared = intake_.Prepare(
        request, [this, id = request.id](const Output& output) { Observe(id, output); });
    if (!prepared.ok()) {
      if (prepared.status().code() != base::Code::kOutOfRange)
        Problem(prepared.status().ToString());
      return;
    }
    for (const sched::Request& r : prepared->sequences) device_.SetSalt(r.sequence, r.salt);
    Submitted& entry = requests_[request.id];
    entry.decoder_from = prepared->sequences[0].decoder_from;
    entry.max_tokens = prepared->sequences[0].max_tokens;
    entry.submitted_step = report_.steps;
    entry.sequences.resize(static_cast<size_t>(request.n));
    first_sequence_[request.id] = prepared->record->first_sequence;
    entry.request = std::move(request);
    open_ += prepared->record->n;
    planner_.Apply(engine::SubmitCommand{.record = prepared->record,
                                         .sequences = std::move(prepared->sequences)},
                   report);
  }

  void Cancel(engine::Report* report) {
    auto at = requests_.begin();
    std::advance(at, script_.Below(static_cast<int64_t>(requests_.size())));
    at->second.cancelled = true;
    planner_.Apply(engine::StopCommand{.first_sequence = first_sequence_[at->first],
                                       .count = at->second.request.n},
                   report);
  }

  // ---- What is checked.

  void CheckPlan(const step::StepPlan& plan) {
    if (plan.number != ++planned_) Problem("plans are not numbered in order");
    if (plan.RowCount() > options_.max_rows) Problem("a plan has too many rows");
    if (static_cast<int64_t>(plan.rows.size()) > options_.max_sequences)
      Problem("a plan has too many sequences");
  }

  void Audit() {
    const Status status = planner_.scheduler().Audit();
    if (!status.ok()) Problem(status.ToString());
  }

  void Observe(const std::string& id, const Output& output) {
    const auto at = requests_.find(id);
    if (at == requests_.end()) return Problem("output of a request that has ended");
    Observed& seen = at->second.sequences.at(static_cast<size_t>(output.index));
    if (seen.ended) Problem("output of a sequence that has ended");
    if (seen.tokens.empty() && !output.tokens.empty()) {
      report_.longest_wait =
          std::max(report_.longest_wait, report_.steps - at->second.submitted_step);
    }
    for (const engine::TokenOutput& token : output.tokens) seen.tokens.push_back(token.id);
    seen.text += output.text;
    seen.prompt_logprobs.insert(seen.prompt_logprobs.end(), output.prompt_logprobs.begin(),
                                output.prompt_logprobs.end());
    report_.tokens += output.tokens.size();
    if (output.finish == FinishReason::kNone) return;
    seen.ended = true;
    ++report_.sequences;
    CheckTokens(at->second, output.index, seen);
    CheckPromptLogprobs(at->second, output.index, seen);
    CheckFinish(at->second, output, seen);
  }

  void CheckTokens(const Submitted& submitted, int32_t index, const Observed& seen) {
    if (options_.prefix_reuse && options_.exactness == sched::PrefixExactness::kBounded) return;
    const auto& prompt = std::get<std::vector<int32_t>>(submitted.request.prompt);
    const uint64_t seed = *submitted.request.seed + static_cast<uint64_t>(index);
    const auto alone = sched::NaiveTokens(options_.reach, prompt, submitted.decoder_from, seed,
                                          static_cast<int64_t>(seen.tokens.size()));
    if (seen.tokens != alone) Problem("tokens differ from those of the sequence alone");
  }

  // Those of every prompt token but the first, once, with the first token of sequence 0.
  void CheckPromptLogprobs(const Submitted& submitted, int32_t index, const Observed& seen) {
    const auto& prompt = std::get<std::vector<int32_t>>(submitted.request.prompt);
    const bool wanted =
        submitted.request.sampling.prompt_logprobs >= 0 && index == 0 && !seen.tokens.empty();
    if (seen.prompt_logprobs.size() != (wanted ? prompt.size() - 1 : 0))
      return Problem("log-probabilities of the prompt are missing or too many");
    for (size_t i = 0; i < seen.prompt_logprobs.size(); ++i) {
      const auto expected = FakeLogprobs(prompt[i + 1], static_cast<int64_t>(i) + 1);
      if (seen.prompt_logprobs[i].chosen.logprob != expected.chosen.logprob)
        Problem("wrong log-probabilities of the prompt");
    }
  }

  void CheckFinish(const Submitted& submitted, const Output& output, const Observed& seen) {
    const auto count = static_cast<int64_t>(seen.tokens.size());
    if (output.output_tokens != count) Problem("the count of tokens is wrong");
    CheckEnds(submitted, output, seen);
    CheckStops(submitted, output, seen);
    switch (output.finish) {
      case FinishReason::kLength:
        if (count != submitted.max_tokens) Problem("an end by length at another length");
        break;
      case FinishReason::kCancelled:
        ++report_.cancelled;
        if (!submitted.cancelled) Problem("cancelled by nobody");
        break;
      case FinishReason::kError:
        ++report_.failed;
        if (output.status.ok()) Problem("an error without a status");
        break;
      default: break;
    }
  }

  // An end token is the last one, and where it comes the sequence ends.
  void CheckEnds(const Submitted& submitted, const Output& output, const Observed& seen) {
    const auto& ends = submitted.request.sampling.end_tokens;
    const auto at = ends.empty() ? seen.tokens.end()
                                 : std::find(seen.tokens.begin(), seen.tokens.end(), ends[0]);
    if (at != seen.tokens.end() && at + 1 != seen.tokens.end())
      Problem("a token after the end token");
    const bool by_token = output.finish == FinishReason::kStop && !output.stop_string.has_value();
    if (by_token && at == seen.tokens.end()) Problem("an end without a cause");
  }

  // The stop string became complete in the last token and is in no earlier text.
  void CheckStops(const Submitted& submitted, const Output& output, const Observed& seen) {
    const std::string all = Bytes().Decode(seen.tokens, true);
    const std::string before = Bytes().Decode(
        std::span(seen.tokens).first(seen.tokens.size() - std::min<size_t>(1, seen.tokens.size())),
        true);
    for (const std::string& stop : submitted.request.stop) {
      if (before.find(stop) != std::string::npos) Problem("a token after a stop string");
    }
    if (!output.stop_string.has_value()) return;
    ++report_.stopped_by_string;
    const size_t kept = submitted.request.include_stop ? 0 : output.stop_string->size();
    if (!all.ends_with(*output.stop_string)) Problem("a stop string that is not there");
    if (seen.text != all.substr(0, all.size() - kept)) Problem("wrong text before a stop string");
  }

  void CheckEmpty() {
    Audit();
    if (!stage_.empty() || !requests_.empty()) Problem("a request without an end");
    planner_.scheduler().DropCache();
    report_.stats = planner_.scheduler().stats();
    if (report_.stats.free_blocks != options_.blocks) Problem("blocks are lost");
    if (report_.stats.checkpoints_used != 0) Problem("checkpoints are lost");
  }

  Script script_;
  const sched::SchedulerOptions options_;
  const int64_t keep_;
  engine::Intake intake_;
  engine::Planner planner_;
  engine::Telemetry telemetry_;
  std::unique_ptr<engine::Trace> trace_;
  engine::OutputStage stage_;
  FakeDevice device_;

  int64_t now_ = 0, device_free_ = 0, next_arrival_ = 0, next_cancel_ = 4000;
  std::deque<std::pair<std::unique_ptr<engine::Job>, int64_t>> flight_;  // job, when it is done
  std::vector<engine::Report> reports_;  // output has not got to them
  std::vector<uint64_t> stops_;

  std::map<std::string, Submitted> requests_;
  std::map<std::string, uint64_t> first_sequence_;
  uint64_t submitted_ = 0, planned_ = 0;
  int64_t open_ = 0;
  SimulationReport report_;
};

}  // namespace

SimulationReport Simulate(uint64_t seed, uint64_t steps) {
  NameSeedOnAbort(seed);
  Simulation simulation(seed);
  return simulation.Run(steps);
}

}  // namespace thalweg::tests
