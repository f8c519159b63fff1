#include "tools/eval/grade.h"

#include <algorithm>

#include "api/errors.h"
#include "base/check.h"

namespace thalweg::tools::eval {
namespace {

using base::Json;

constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kEndOfSentence = "<｜end▁of▁sentence｜>";

Result<std::vector<int32_t>> TokensOf(const LLM& llm, const Prompt& prompt,
                                      const RequestOptions& options) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  if (const auto* text = std::get_if<std::string>(&prompt)) return llm.Encode(*text, options);
  Expected<std::vector<int32_t>> ids = llm.EncodeChat(std::get<Conversation>(prompt));
  if (!ids.ok()) return api::ToStatus(ids.error());
  return std::move(*ids);
}

// Text that goes on behind other tokens.
std::vector<int32_t> Continuation(const LLM& llm, const std::string& text, bool parse_special) {
  return llm.Encode(text, {.add_special_tokens = false, .parse_special_tokens = parse_special});
}

// The tokens of `text` behind those of `context`, to be scored from the second token at the
// earliest: nothing predicts the first.
Question Likelihood(const LLM& llm, std::vector<int32_t> context, std::span<const int32_t> text) {
  Question question;
  question.scored_from = std::max<size_t>(1, context.size());
  context.insert(context.end(), text.begin(), text.end());
  const std::span<const int32_t> all = context;
  const std::span<const int32_t> scored = all.subspan(std::min(question.scored_from, all.size()));
  question.scored_bytes = static_cast<int64_t>(llm.Decode(scored).size());
  question.prompt = std::move(context);
  question.params = {.temperature = 0, .max_tokens = 1, .prompt_logprobs = 0};
  return question;
}

Result<std::vector<Question>> PerplexityQuestion(const LLM& llm, const Item& item) {
  TW_ASSIGN(std::vector<int32_t> context, TokensOf(llm, item.context, item.options));
  std::vector<int32_t> text;
  const auto* written = std::get_if<std::string>(&item.prompt);
  if (written != nullptr && !context.empty()) {
    text = Continuation(llm, *written, item.options.parse_special_tokens);
  } else {
    TW_ASSIGN(text, TokensOf(llm, item.prompt, item.options));
  }
  Question question = Likelihood(llm, std::move(context), text);
  const size_t tokens = std::get<std::vector<int32_t>>(question.prompt).size();
  if (tokens <= question.scored_from)
    return base::InvalidArgument("nothing to score: the text has no token behind the first");
  return std::vector<Question>{std::move(question)};
}

Result<std::vector<Question>> ChoiceQuestions(const LLM& llm, const Item& item) {
  TW_ASSIGN(const std::vector<int32_t> prompt, TokensOf(llm, item.prompt, item.options));
  if (prompt.empty()) return base::InvalidArgument("the prompt is empty");
  std::vector<Question> questions;
  for (const std::string& choice : item.choices)
    questions.push_back(Likelihood(llm, prompt, Continuation(llm, choice, false)));
  return questions;
}

Question AnswerQuestion(const Item& item, uint64_t seed) {
  Question question{.prompt = item.prompt, .params = item.params, .options = item.options};
  question.params.output_kind = OutputKind::kFinalOnly;
  question.params.skip_special_tokens = false;
  if (!question.params.seed.has_value()) question.params.seed = seed;
  if (item.kind == Kind::kSchema && item.constrained)
    question.params.so_args = Json{{"type", "json_schema"}, {"content", item.schema}}.dump();
  return question;
}

double LogprobOf(const Question& question, const RequestOutput& output) {
  TW_CHECK(output.prompt_logprobs.has_value());
  double sum = 0;
  const auto& positions = *output.prompt_logprobs;
  for (size_t i = question.scored_from; i < positions.size(); ++i) {
    TW_CHECK(positions[i].has_value());
    sum += static_cast<double>(positions[i]->chosen.logprob);
  }
  return sum;
}

int64_t TokensScored(const Question& question) {
  const size_t all = std::get<std::vector<int32_t>>(question.prompt).size();
  return static_cast<int64_t>(all - question.scored_from);
}

// The first of the largest.
size_t Best(const std::vector<double>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

void GradeChoice(const Item& item, std::span<const Question> questions,
                 std::span<const RequestOutput> outputs, Score* score) {
  std::vector<double> sum, per_token, per_byte;
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto divide = [](double a, int64_t by) {
      return a / static_cast<double>(std::max<int64_t>(by, 1));
    };
    sum.push_back(LogprobOf(questions[i], outputs[i]));
    per_token.push_back(divide(sum.back(), TokensScored(questions[i])));
    per_byte.push_back(divide(sum.back(), questions[i].scored_bytes));
  }
  score->marks = {{"accuracy", Best(sum) == item.right_choice},
                  {"accuracy_per_token", Best(per_token) == item.right_choice},
                  {"accuracy_per_byte", Best(per_byte) == item.right_choice}};
  score->details = {{"chosen", Best(sum)}, {"answer", item.right_choice}, {"logprobs", sum}};
}

void GradeAnswer(const Item& item, const RequestOutput& output, Score* score) {
  TW_CHECK_EQ(output.outputs.size(), size_t{1});
  const CompletionOutput& one = output.outputs.front();
  const std::string content = ContentOf(one);
  if (item.kind == Kind::kSchema)
    score->marks.emplace_back("valid", item.check->Check(content).ok());
  if (!item.answers.empty())
    score->marks.emplace_back("exact_match", IsRight(content, item.answers, item.rule));
  score->details = {{"text", content},
                    {"finish_reason", one.finish_reason},
                    {"output_tokens", one.token_ids.size()}};
}

}  // namespace

Result<std::vector<Question>> QuestionsOf(const LLM& llm, const Item& item, uint64_t seed) {
  switch (item.kind) {
    case Kind::kPerplexity: return PerplexityQuestion(llm, item);
    case Kind::kChoice: return ChoiceQuestions(llm, item);
    default: return std::vector<Question>{AnswerQuestion(item, seed)};
  }
}

std::string ContentOf(const CompletionOutput& output) {
  std::string_view text = output.text;
  if (text.ends_with(kEndOfSentence)) text.remove_suffix(kEndOfSentence.size());
  if (output.reasoning_tokens == 0) return std::string(text);
  const size_t end = text.find(kThinkEnd);
  if (end == std::string_view::npos) return "";
  return std::string(text.substr(end + kThinkEnd.size()));
}

Score Grade(const Item& item, std::span<const Question> questions,
            std::span<const RequestOutput> outputs) {
  TW_CHECK_EQ(questions.size(), outputs.size());
  Score score{.kind = item.kind, .group = item.group};
  if (item.kind == Kind::kPerplexity) {
    score.nll = -LogprobOf(questions.front(), outputs.front());
    score.tokens = TokensScored(questions.front());
    score.bytes = questions.front().scored_bytes;
  } else if (item.kind == Kind::kChoice) {
    GradeChoice(item, questions, outputs, &score);
  } else {
    GradeAnswer(item, outputs.front(), &score);
  }
  return score;
}

}  // namespace thalweg::tools::eval
