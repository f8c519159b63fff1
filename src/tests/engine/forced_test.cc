// Text that a constraint forces is drafted, without and with a draft module, and changes no token
// and no bit of a log-probability: greedy and seeded, alone and in batches of 8 and 64, whoever
// makes the masks, with preemption, whether it pays or not. It saves steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/harness.h"

namespace thalweg::tests {
namespace {

using engine::EngineOptions;
using engine::GenerateRequest;

constexpr const char* kRecord =
    R"({"type": "json_schema", "whitespace": "python", "content": {"type": "object",
        "properties": {
        "temperature_in_celsius": {"type": "integer", "minimum": -50, "maximum": 60},
        "wind_direction": {"enum": ["north", "east", "south", "west"]},
        "measured_by_the_station": {"type": "boolean"},
        "comment_of_the_observer": {"type": "string", "maxLength": 12}},
        "required": ["temperature_in_celsius", "wind_direction", "measured_by_the_station",
                     "comment_of_the_observer"], "additionalProperties": false}})";
constexpr const char* kLetter =
    R"({"type": "regex", "content": "Dear (Sir|Madam), thank you for the letter of (May|June). "})";
constexpr const char* kFlexible =
    R"({"type": "json_schema", "content": {"type": "object", "properties": {
        "identifier": {"type": "integer", "minimum": 0, "maximum": 9999},
        "description": {"type": "string", "maxLength": 20}},
        "required": ["identifier", "description"], "additionalProperties": false}})";

// Three kinds of constraint, and some requests without one.
const std::vector<GenerateRequest>& Requests() {
  static const std::vector<GenerateRequest> requests = [] {
    std::vector<GenerateRequest> all;
    const std::vector<const char*> kinds = {kRecord, kLetter, kRecord, kFlexible, ""};
    for (size_t i = 0; i < 64; ++i) {
      GenerateRequest& r = all.emplace_back();
      r.prompt = SomeTokens(3 + static_cast<int64_t>(i * 5 % 90), i);
      r.seed = i;
      r.max_tokens = 70;
      r.so_args = kinds[i % kinds.size()];
      r.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
      if (i % 7 == 3) r.sampling.frequency_penalty = 0.3;
      r.sampling.logprobs = 1;
    }
    return all;
  }();
  return requests;
}

// None is drafted.
const std::vector<Answer>& Expected() {
  static const std::vector<Answer> expected = [] {
    EngineOptions options = NanoOptions();
    options.forced_drafts = false;
    const auto engine = LoadEngine(options);
    std::vector<Answer> answers = RunAll(*engine, Requests());
    EXPECT_EQ(engine->metrics().constraints.forced_drafts, 0u);
    EXPECT_EQ(engine->metrics().scheduler.drafted, 0u);
    return answers;
  }();
  return expected;
}

void ExpectSame(const std::vector<Answer>& actual) {
  ASSERT_EQ(actual.size(), Expected().size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(Expected()[i].status.ok()) << Expected()[i].status.ToString();
    EXPECT_EQ(Difference(Expected()[i], actual[i]), "") << "request " << i;
  }
}

// Everything that is forced, whether it pays or not.
EngineOptions AllForced(int64_t batch) {
  EngineOptions options = NanoOptions();
  options.max_sequences = batch;
  options.draft_costs = false;
  return options;
}

TEST(ForcedDrafts, ChangeNoTokenInAnyBatch) {
  for (const int64_t batch : {1, 8, 64}) {
    SCOPED_TRACE(batch);
    const auto engine = LoadEngine(AllForced(batch));
    ExpectSame(RunAll(*engine, Requests()));
    const engine::Metrics metrics = engine->metrics();
    fmt::print("batch {}: {} forced tokens drafted, {} steps of sequences saved of {} tokens\n",
               batch, metrics.constraints.forced_drafts, metrics.constraints.steps_saved,
               metrics.output_tokens);
    EXPECT_GT(metrics.constraints.steps_saved, metrics.output_tokens / 5);
    EXPECT_EQ(metrics.constraints.steps_saved, metrics.scheduler.accepted);
  }
}

TEST(ForcedDrafts, ChangeNoTokenInFrontOfDrawnOnes) {
  EngineOptions options = AllForced(16);
  for (const int64_t drafts : {2, 5}) {
    SCOPED_TRACE(drafts);
    options.draft_tokens = drafts;
    const auto engine = LoadEngine(options);
    ExpectSame(RunAll(*engine, Requests()));
    EXPECT_GT(engine->metrics().constraints.steps_saved, 100u);
    EXPECT_GT(engine->metrics().scheduler.accepted, engine->metrics().constraints.steps_saved);
  }
}

TEST(ForcedDrafts, ChangeNoTokenWhereCostsDecide) {
  for (const int64_t batch : {1, 32}) {
    EngineOptions options = NanoOptions();
    options.max_sequences = batch;
    ExpectSame(RunAll(*LoadEngine(options), Requests()));
  }
}

TEST(ForcedDrafts, ChangeNoTokenUnderPreemptionAndOverlap) {
  EngineOptions options = AllForced(8);
  options.preempt_every = 3;
  options.overlap = 3;
  options.max_rows = 60;
  options.so_threads = 2;
  const auto engine = LoadEngine(options);
  const auto enough = [&] { return engine->metrics().scheduler.preempted > 6; };
  for (int round = 0; round < 20 && !enough(); ++round) ExpectSame(RunAll(*engine, Requests()));
  EXPECT_TRUE(enough());
}

// Unseeded requests are judged by rejection: forced tokens are certain, and what comes out still
// satisfies the constraint.
TEST(ForcedDrafts, OfUnseededRequestsAreDraftedToo) {
  std::vector<GenerateRequest> requests = Requests();
  for (GenerateRequest& r : requests) r.seed.reset();
  EngineOptions options = AllForced(16);
  options.draft_tokens = 5;
  const auto engine = LoadEngine(options);
  for (const Answer& answer : RunAll(*engine, requests))
    EXPECT_TRUE(answer.status.ok()) << answer.status.ToString();
  EXPECT_GT(engine->metrics().constraints.steps_saved, 100u);
}

}  // namespace
}  // namespace thalweg::tests
