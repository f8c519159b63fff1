// Constrained requests: what comes out is what was asked for, whatever else is asked of the
// sampler; how it was computed (overlap, threads that make masks, batches with requests that are
// free, preemption, reuse) changes no bit of it; what cannot be compiled is an error of its request
// alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <thread>

#include "base/json.h"
#include "tests/engine/harness.h"

namespace thalweg::tests {
namespace {

using engine::FinishReason;
using engine::GenerateRequest;

constexpr const char* kPerson =
    R"({"type": "json_schema", "content": {"type": "object",
        "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 10},
                       "age": {"type": "integer", "minimum": 0, "maximum": 150},
                       "tags": {"type": "array", "items": {"enum": ["red", "green"]},
                                "maxItems": 3}},
        "required": ["name", "age", "tags"], "additionalProperties": false}})";
constexpr const char* kDate =
    R"({"type": "regex", "content": "[12][0-9]{3}-[01][0-9]-[0-3][0-9]"})";
constexpr const char* kWords = R"({"type": "regex", "content": "[a-z]{2,8}( [a-z]{2,8}){1,5}"})";
constexpr const char* kSum =
    R"({"type": "ebnf", "content": "root ::= term (\"+\" term){1,3}\nterm ::= [0-9]{1,3}\n"})";

GenerateRequest Constrained(const char* so_args, uint64_t seed) {
  GenerateRequest r;
  r.prompt = SomeTokens(5 + static_cast<int64_t>(seed % 70), seed);
  r.seed = seed;
  r.max_tokens = 60;
  r.so_args = so_args;
  r.sampling.logprobs = 2;
  return r;
}

void Season(size_t kind, GenerateRequest* r) {
  switch (kind % 5) {
    case 0: r->sampling.temperature = 0; break;
    case 1: r->sampling.top_p = 0.9; break;
    case 2:
      r->sampling.ignore_eos = true;
      r->sampling.temperature = 1.5;
      break;
    case 3:
      r->sampling.min_tokens = 5;
      r->sampling.repetition_penalty = 1.2;
      break;
    case 4: r->n = 2; break;
  }
}

// Constrained ones of every kind, and some that are free.
const std::vector<GenerateRequest>& Requests() {
  static const std::vector<GenerateRequest> requests = [] {
    std::vector<GenerateRequest> all;
    const std::vector<const char*> kinds = {kPerson, kDate, kWords, kSum, ""};
    for (size_t i = 0; i < 25; ++i) {
      all.push_back(Constrained(kinds[i % kinds.size()], i + 1));
      Season(i / kinds.size() + i, &all.back());
    }
    return all;
  }();
  return requests;
}

std::string TextOf(const engine::Engine& engine, const Answer& answer) {
  return engine.tokenizer()->Decode(answer.tokens, true);
}

bool IsPerson(const std::string& text) {
  const Result<base::Json> json = base::ParseJson(text, "answer");
  return json.ok() && json->is_object() && json->size() == 3 && (*json)["name"].is_string() &&
         (*json)["age"].is_number_integer() && (*json)["age"] <= 150 &&
         (*json)["tags"].is_array() && (*json)["tags"].size() <= 3;
}

bool Satisfies(const std::string& so_args, const std::string& text) {
  if (so_args == kPerson) return IsPerson(text);
  const std::string regex = so_args == kDate    ? "[12][0-9]{3}-[01][0-9]-[0-3][0-9]"
                            : so_args == kWords ? "[a-z]{2,8}( [a-z]{2,8}){1,5}"
                                                : "[0-9]{1,3}(\\+[0-9]{1,3}){1,3}";
  return std::regex_match(text, std::regex(regex));
}

const std::vector<Answer>& Expected() {
  static const std::vector<Answer> expected = [] {
    engine::EngineOptions options = NanoOptions();
    options.overlap = 0;
    options.prefix_reuse = false;
    return RunEach(*LoadEngine(options), Requests());
  }();
  return expected;
}

void Check(const std::function<void(engine::EngineOptions*)>& change, int rounds = 2) {
  engine::EngineOptions options = NanoOptions();
  change(&options);
  const auto engine = LoadEngine(options);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<Answer> actual = RunAll(*engine, Requests());
    ASSERT_EQ(actual.size(), Expected().size());
    for (size_t i = 0; i < actual.size(); ++i)
      EXPECT_EQ(Difference(Expected()[i], actual[i]), "") << "sequence " << i;
  }
}

TEST(Constraint, AnswersAreWhatWasAskedFor) {
  const auto engine = LoadEngine(NanoOptions());
  const std::vector<Answer> answers = RunAll(*engine, Requests());
  size_t at = 0;
  int complete = 0;
  for (const GenerateRequest& request : Requests()) {
    for (int i = 0; i < request.n; ++i, ++at) {
      const Answer& answer = answers[at];
      ASSERT_TRUE(answer.status.ok()) << answer.status.ToString();
      if (request.so_args.empty() || answer.finish != FinishReason::kStop) continue;
      ++complete;
      const std::string text = TextOf(*engine, answer);
      EXPECT_TRUE(Satisfies(request.so_args, text)) << request.so_args << "\n" << text;
    }
  }
  EXPECT_GT(complete, 15);  // few are cut by max_tokens
  EXPECT_EQ(engine->metrics().constraints.compiled, 4u);
}

TEST(Constraint, OverlapDepthsChangeNoBit) {
  for (const int64_t depth : {0, 1, 2, 3}) {
    SCOPED_TRACE(depth);
    Check([&](engine::EngineOptions* o) { o->overlap = depth; }, 1);
  }
}

TEST(Constraint, ThreadsThatMakeMasksChangeNoBit) {
  for (const int64_t threads : {0, 1, 3}) {
    SCOPED_TRACE(threads);
    Check([&](engine::EngineOptions* o) { o->so_threads = threads; }, 1);
  }
}

TEST(Constraint, FewSlotsAndReuseChangeNoBit) {
  Check([](engine::EngineOptions* o) { o->max_sequences = 3; });
}

// Free and constrained sequences of the batch are drafted for, masks follow the drafts.
TEST(Constraint, DraftsChangeNoBit) {
  Check(
      [](engine::EngineOptions* o) {
        o->draft_tokens = 5;
        o->draft_costs = false;
      },
      1);
}

TEST(Constraint, PreemptionChangesNoBit) {
  engine::EngineOptions options = NanoOptions();
  options.preempt_every = 3;
  options.so_threads = 1;
  const auto engine = LoadEngine(options);
  for (int round = 0; round < 30 && engine->metrics().scheduler.preempted <= 10; ++round) {
    const std::vector<Answer> actual = RunAll(*engine, Requests());
    for (size_t i = 0; i < actual.size(); ++i)
      EXPECT_EQ(Difference(Expected()[i], actual[i]), "") << "sequence " << i;
  }
  EXPECT_GT(engine->metrics().scheduler.preempted, 10u);
}

// Another constraint, another answer: the comparison can fail.
TEST(Constraint, WithoutItAnswersAreOthers) {
  std::vector<GenerateRequest> requests = Requests();
  for (GenerateRequest& r : requests) r.so_args.clear();
  const std::vector<Answer> answers = RunAll(*LoadEngine(NanoOptions()), requests);
  int different = 0;
  for (size_t i = 0; i < answers.size(); ++i) different += answers[i] == Expected()[i] ? 0 : 1;
  EXPECT_GT(different, 15);
}

TEST(Constraint, ErrorsAreThoseOfTheirRequest) {
  const auto engine = LoadEngine(NanoOptions());
  for (const std::string so_args :
       {R"({"type": "regex", "content": "(a"})", R"({"type": "regex", "content": "\\1"})",
        R"({"type": "regex", "content": "a{1000000000}"})", R"({"type": "regexp"})",
        R"({"type": "json_schema", "content": {"type": 5}})",
        R"({"type": "json_schema", "content": {"not": {}}})",
        R"({"type": "ebnf", "content": "root ::= nothing"})", R"([1])", R"({"type": )",
        R"({"type": "regex", "content": "a", "starts_after_token": "<no such token>"})"}) {
    GenerateRequest bad = Constrained(so_args.c_str(), 1);
    const std::vector<Answer> answers = RunAll(*engine, {bad, Constrained(kDate, 2)});
    EXPECT_FALSE(answers[0].status.ok()) << so_args;
    EXPECT_TRUE(answers[0].tokens.empty());
    EXPECT_TRUE(answers[1].status.ok());
    EXPECT_TRUE(Satisfies(kDate, TextOf(*engine, answers[1])));
  }
}

// Restrictions that leave nothing end the sequence, and no other.
TEST(Constraint, RestrictionsThatContradictItEndTheSequenceAlone) {
  const auto engine = LoadEngine(NanoOptions());
  GenerateRequest bad = Constrained(kDate, 1);
  bad.sampling.allowed_tokens = engine->tokenizer()->Encode("x", text::Specials::kAsText);
  const std::vector<Answer> answers = RunAll(*engine, {bad, Constrained(kDate, 2)});
  EXPECT_EQ(answers[0].finish, FinishReason::kError);
  EXPECT_NE(answers[0].status.message().find("so_args"), std::string::npos)
      << answers[0].status.ToString();
  EXPECT_EQ(answers[1].finish, FinishReason::kStop);
}

TEST(Constraint, ItEndsThoughEndTokensAreIgnored) {
  const auto engine = LoadEngine(NanoOptions());
  GenerateRequest request = Constrained(kDate, 5);
  request.sampling.ignore_eos = true;
  request.sampling.min_tokens = 40;
  const Answer answer = RunAll(*engine, {request}).front();
  EXPECT_EQ(answer.finish, FinishReason::kStop) << answer.status.ToString();
  EXPECT_TRUE(Satisfies(kDate, TextOf(*engine, answer)));
}

// Reasoning is free text; the constraint begins behind it.
TEST(Constraint, ItBeginsBehindTheReasoning) {
  const auto engine = LoadEngine(NanoOptions());
  const int32_t end = *engine->tokenizer()->IdOfSpecial("</think>");
  for (const uint64_t seed : {1u, 2u, 3u}) {
    GenerateRequest request;
    engine::ChatPrompt chat;
    chat.conversation.messages = {{.content = "Say when."}};
    chat.options.thinking = true;
    request.prompt = chat;
    request.so_args = kDate;
    request.seed = seed;
    request.max_tokens = 60;
    request.sampling.thinking_budget = 12;
    const Answer answer = RunAll(*engine, {request}).front();
    ASSERT_EQ(answer.finish, FinishReason::kStop) << answer.status.ToString();
    const auto at = std::find(answer.tokens.begin(), answer.tokens.end(), end);
    ASSERT_NE(at, answer.tokens.end());
    const std::vector<int32_t> rest(at + 1, answer.tokens.end());
    EXPECT_TRUE(Satisfies(kDate, engine->tokenizer()->Decode(rest, true)));
  }
}

TEST(Constraint, CancelledAtAnyTimeNothingStays) {
  engine::EngineOptions options = NanoOptions();
  options.so_threads = 2;
  const auto engine = LoadEngine(options);
  for (int i = 0; i < 40; ++i) {
    GenerateRequest request = Constrained(kWords, static_cast<uint64_t>(i));
    request.n = 3;
    const auto id = engine->Submit(request, [](const engine::Output&) {});
    ASSERT_TRUE(id.ok());
    std::this_thread::sleep_for(std::chrono::microseconds(300 * (i % 20)));
    engine->Cancel(*id);
  }
  EXPECT_EQ(RunAll(*engine, {Constrained(kDate, 3)}).front().finish, FinishReason::kStop);
  EXPECT_EQ(engine->Drain(false), 0);
}

}  // namespace
}  // namespace thalweg::tests
