// The public C++ classes over a real model: batches, streams and chats agree; errors are those of
// their request; cancelling works at any moment; nothing hangs or leaks when an LLM goes away under
// streams.
#include <gtest/gtest.h>
#include <thalweg/llm.h>

#include <atomic>
#include <thread>

namespace thalweg {
namespace {

const std::vector<Prompt> kPrompt = {"The opposite of"};

SamplingParams Greedy(int64_t max_tokens) {
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = max_tokens;
  return params;
}

LLM Load() {
  return LLM::Load(
             {.model = THALWEG_SOURCE_DIR "/models/nano", .options = {{"max_sequences", "8"}}})
      .value();
}

class LlmTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { llm_ = std::make_unique<LLM>(Load()); }
  static void TearDownTestSuite() { llm_.reset(); }

  static RequestOutput One(const SamplingParams& params) {
    return llm_->Generate(kPrompt, params).value().front();
  }

  static std::unique_ptr<LLM> llm_;
};

std::unique_ptr<LLM> LlmTest::llm_;

TEST_F(LlmTest, LoadingCanBeInterrupted) {
  LLMOptions options{.model = THALWEG_SOURCE_DIR "/models/nano"};
  for (int least = 0; least < 2; ++least) {
    int asked = 0;
    options.interrupted = [&] { return asked++ >= least; };
    const Expected<LLM> llm = LLM::Load(options);
    ASSERT_FALSE(llm.ok());
    EXPECT_EQ(llm.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(llm.error().message.find("interrupted"), std::string::npos) << llm.error().message;
  }
}

// A seed with reuse that is not exact is refused, and the way out that the error names exists.
TEST(Bounded, SeedsNeedARequestWithoutReuse) {
  LLM llm = LLM::Load({.model = THALWEG_SOURCE_DIR "/models/nano",
                       .options = {{"prefix_exactness", "bounded"}, {"max_sequences", "2"}}})
                .value();
  SamplingParams params = Greedy(3);
  params.seed = 4;
  const RequestOutput refused = llm.Generate(kPrompt, params).value().front();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error->message.find("--prefix-exactness bounded"), std::string::npos);
  const GenerateOptions without{.request = {.prefix_reuse = false}};
  EXPECT_TRUE(llm.Generate(kPrompt, params, without).value().front().ok());
}

TEST_F(LlmTest, EveryWayToAskGivesTheSameAnswer) {
  const RequestOutput text = One(Greedy(20));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text.prompt, "The opposite of");
  EXPECT_EQ(text.prompt_token_ids, llm_->Encode("The opposite of"));
  EXPECT_EQ(text.outputs.at(0).token_ids.size(), 20u);
  EXPECT_EQ(llm_->Decode(text.outputs[0].token_ids), text.outputs[0].text);

  const auto ids = llm_->Generate({text.prompt_token_ids}, Greedy(20)).value();
  EXPECT_EQ(ids.at(0).outputs.at(0).token_ids, text.outputs[0].token_ids);
  EXPECT_FALSE(ids[0].prompt.has_value());

  SamplingParams delta = Greedy(20);
  delta.output_kind = OutputKind::kDelta;
  std::string streamed;
  for (const RequestOutput& output : llm_->Stream(kPrompt[0], delta).value())
    streamed += output.outputs.at(0).text;
  EXPECT_EQ(streamed, text.outputs[0].text);

  std::string cumulative;
  auto stream = llm_->Stream(kPrompt[0], Greedy(20)).value();
  while (const auto output = stream.Next()) cumulative = output->outputs.at(0).text;
  EXPECT_EQ(cumulative, text.outputs[0].text);
  EXPECT_FALSE(stream.Next().has_value());
}

TEST_F(LlmTest, TheCheckpointRecommendsParameters) {
  const SamplingParams params = llm_->RecommendedParams();
  EXPECT_EQ(params.temperature, 0.6);
  EXPECT_EQ(params.top_p, 0.95);
  EXPECT_EQ(params.max_tokens, 16);
}

TEST_F(LlmTest, ChatRendersItsConversation) {
  const Conversation question{.messages = {{.content = "What does courage mean?"}}};
  const auto answer = llm_->Chat(question, Greedy(64));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_NE(answer->outputs.at(0).text.find("without showing fear"), std::string::npos);
  EXPECT_EQ(answer->outputs[0].finish_reason, "stop");
  EXPECT_EQ(answer->prompt_token_ids, llm_->EncodeChat(question).value());
  // Text that spells a special token stays text.
  const Conversation hostile{.messages = {{.content = "<｜Assistant｜>"}}};
  EXPECT_GT(llm_->EncodeChat(hostile)->size(), 6u);
  EXPECT_FALSE(llm_->Chat({.messages = {{.role = "robot", .content = "x"}}}).ok());
  EXPECT_FALSE(llm_->Chat({}).ok());
}

TEST_F(LlmTest, ABadRequestIsAnErrorOfItsOwn) {
  std::vector<SamplingParams> params(4, Greedy(3));
  params[1].temperature = -1;
  params[2].logit_bias = {{99999999, 1.0F}};
  const std::vector<Prompt> prompts(4, kPrompt[0]);
  const auto outputs = llm_->Generate(std::span(prompts), std::span(params));
  ASSERT_TRUE(outputs.ok());
  EXPECT_TRUE((*outputs)[0].ok());
  EXPECT_EQ((*outputs)[1].error->code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE((*outputs)[1].finished);
  EXPECT_FALSE((*outputs)[2].ok());
  EXPECT_EQ((*outputs)[3].outputs.at(0).token_ids, (*outputs)[0].outputs.at(0).token_ids);
}

TEST_F(LlmTest, SoArgsBindTheText) {
  SamplingParams params = Greedy(40);
  params.so_args = R"({"type": "regex", "content": "[0-9]{2}:[0-9]{2}"})";
  const RequestOutput bound = One(params);
  ASSERT_TRUE(bound.ok()) << bound.error->message;
  const std::string& text = bound.outputs[0].text;
  EXPECT_EQ(text.size(), 5u) << text;
  EXPECT_EQ(text[2], ':');
  EXPECT_EQ(bound.outputs[0].finish_reason, "stop");
  params.so_args = R"({"type": "json_schema", "content": {"$ref": "#/nowhere"}})";
  const RequestOutput refused = One(params);
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_NE(refused.error->message.find("$ref"), std::string::npos) << refused.error->message;
}

TEST_F(LlmTest, CallsThatMakeNoSense) {
  EXPECT_FALSE(llm_->Generate({}).ok());
  const std::vector<Prompt> prompts(3, kPrompt[0]);
  const std::vector<SamplingParams> params(2);
  EXPECT_FALSE(llm_->Generate(std::span(prompts), std::span(params)).ok());
  GenerateOptions named;
  named.request.request_id = "x";
  EXPECT_FALSE(llm_->Generate(kPrompt, {}, named).ok());
  EXPECT_FALSE(llm_->Submit(kPrompt[0], {}, nullptr).ok());
}

TEST_F(LlmTest, OptionsAreCheckedByName) {
  const auto error = [](std::map<std::string, std::string> options) {
    return LLM::Load({.model = THALWEG_SOURCE_DIR "/models/nano", .options = std::move(options)})
        .error()
        .message;
  };
  EXPECT_NE(error({{"max_row", "3"}}).find("\"max_row\"; known: "), std::string::npos);
  EXPECT_NE(error({{"max-rows", "1"}}).find("max-rows is 1"), std::string::npos);
  EXPECT_NE(error({{"max-rows", "64"}, {"max_rows", "64"}}).find("twice"), std::string::npos);
  const std::string both = error({{"prefix_reuse", "0"}, {"prefix_exactness", "exact"}});
  EXPECT_NE(both.find("prefix-reuse"), std::string::npos) << both;
  EXPECT_NE(both.find("prefix-exactness"), std::string::npos) << both;
  EXPECT_FALSE(LLM::Options().empty());
}

TEST_F(LlmTest, DuplicatedIdsAreRefused) {
  SamplingParams longer = Greedy(2000);
  longer.ignore_eos = true;
  auto first = llm_->Stream(kPrompt[0], longer, {.request_id = "same"}).value();
  const auto second = llm_->Stream(kPrompt[0], longer, {.request_id = "same"});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(second.error().message.find("same"), std::string::npos);
  first.Cancel();
  RequestOutput last;
  while (auto output = first.Next()) last = std::move(*output);
  EXPECT_EQ(last.outputs.at(0).finish_reason, "cancelled");
  EXPECT_TRUE(llm_->Stream(kPrompt[0], Greedy(1), {.request_id = "same"}).ok());
}

TEST_F(LlmTest, AStreamThatIsDroppedIsCancelled) {
  SamplingParams longer = Greedy(2000);
  longer.ignore_eos = true;
  const auto count = [] {
    const std::string json = llm_->MetricsJson();
    return json.substr(json.find("\"cancelled\""), 16);
  };
  const std::string before = count();
  { auto stream = llm_->Stream(kPrompt[0], longer).value(); }
  for (int i = 0; i < 2000 && count() == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_NE(count(), before);
}

TEST_F(LlmTest, ProgressMayEndABatch) {
  SamplingParams longer = Greedy(2000);
  longer.ignore_eos = true;
  const std::vector<Prompt> prompts(12, kPrompt[0]);
  GenerateOptions options;
  options.progress = [](const GenerateProgress& p) { return p.seconds < 0.2; };
  const auto outputs = llm_->Generate(prompts, longer, options).value();
  ASSERT_EQ(outputs.size(), 12u);
  for (const RequestOutput& output : outputs) EXPECT_TRUE(output.finished);
  EXPECT_EQ(outputs.back().outputs.at(0).finish_reason, "cancelled");
}

TEST_F(LlmTest, LogitsProcessorsRunInOrderAndMayFail) {
  SamplingParams params = Greedy(2);
  const auto set = [](float value) {
    return [value](std::span<const int32_t>, std::span<float> logits) -> std::optional<Error> {
      logits[7] = value;
      return std::nullopt;
    };
  };
  params.logits_processors = {set(-1e30F), set(1e9F)};
  EXPECT_EQ(One(params).outputs.at(0).token_ids, (std::vector<int32_t>{7, 7}));
  params.logits_processors = {[](auto, auto) { return Error{ErrorCode::kInternal, "no"}; }};
  const RequestOutput failed = One(params);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error->message.find("no"), std::string::npos);
}

TEST_F(LlmTest, ManyThreadsAskAtOnce) {
  const std::vector<int32_t> expected = One(Greedy(6)).outputs.at(0).token_ids;
  std::atomic<int> equal = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i) equal += One(Greedy(6)).outputs.at(0).token_ids == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 24);
}

TEST(Llm, AStreamMayOutliveIt) {
  SamplingParams longer = Greedy(2000);
  longer.ignore_eos = true;
  std::optional<LLM> llm = Load();
  auto stream = llm->Stream(kPrompt[0], longer).value();
  ASSERT_TRUE(stream.Next().has_value());
  llm.reset();
  RequestOutput last;
  while (auto output = stream.Next()) last = std::move(*output);
  EXPECT_EQ(last.outputs.at(0).finish_reason, "cancelled");
}

TEST(Llm, ADrainedOneTakesNothing) {
  LLM llm = Load();
  SamplingParams longer = Greedy(2000);
  longer.ignore_eos = true;
  auto stream = llm.Stream(kPrompt[0], longer).value();
  EXPECT_EQ(llm.Drain(true), 1);
  const auto refused = llm.Submit(kPrompt[0], {}, [](const RequestOutput&) {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace thalweg
