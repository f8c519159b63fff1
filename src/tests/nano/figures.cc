#include "tests/nano/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/nano/nano_files.h"
#include "tools/generate.h"
#include "tools/score.h"

namespace thalweg::tests {
namespace {

constexpr double kPublishedPerplexity = 2.838;
constexpr double kLossPerToken = 0.06;
constexpr double kLossRms = 0.015;
constexpr double kConfidence = 0.4;
constexpr double kDraftAgreement = 0.9;

// Line of the document -> loss per token of the reference.
std::map<size_t, double> ReferenceLosses() {
  std::map<size_t, double> out;
  const base::Json eval = ReadJson(SourceDir() / "tests/data/nano/eval.json");
  for (const base::Json& d : eval["official_reference"]["per_document"]) {
    out[d["line"].get<size_t>()] = d["nll_sum_reference"].get<double>() / d["tokens"].get<double>();
  }
  return out;
}

struct Totals {
  int64_t tokens = 0;
  double nll = 0;
  int compared = 0;
  double squares = 0;
};

void ScoreInto(tools::Session& session, const base::Json& document, size_t line,
               const std::map<size_t, double>& reference, Totals* totals) {
  const auto ids = document["ids"].get<std::vector<int32_t>>();
  const Result<tools::DocumentScore> score =
      tools::ScoreDocument(*session.model, ids, model::Replay{}, {});
  ASSERT_TRUE(score.ok()) << score.status().ToString();
  totals->tokens += score->tokens;
  totals->nll += score->nll;
  const auto published = reference.find(line);
  if (published == reference.end()) return;
  const double difference = score->nll / static_cast<double>(score->tokens) - published->second;
  EXPECT_LE(std::fabs(difference), kLossPerToken) << "document " << line;
  totals->squares += difference * difference;
  ++totals->compared;
}

struct Agreement {
  int steps = 0, equal = 0, blocks = 0, equal_blocks = 0;
};

int32_t ArgMax(const float* row, int64_t n) {
  return static_cast<int32_t>(std::max_element(row, row + n) - row);
}

// The draft behind token i of the stored continuation.
void CompareDraft(tools::Session& session, kvpool::SequenceId sequence, const base::Json& p,
                  size_t i, Agreement* seen) {
  model::DraftOutput draft;
  const model::DraftRequest request{sequence, p["tokens"][i].get<int32_t>()};
  ASSERT_TRUE(session.model->Draft({&request, 1}, &draft).ok());
  const auto tokens = p["drafts"][i - 1].get<std::vector<int32_t>>();
  const auto confidence = p["confidence"][i - 1].get<std::vector<double>>();
  ++seen->blocks;
  seen->equal_blocks += draft.tokens == tokens;
  // A confidence judges its slot given the tokens before, so it compares while those are equal.
  for (size_t k = 0; k < tokens.size() && (k == 0 || draft.tokens[k - 1] == tokens[k - 1]); ++k) {
    EXPECT_NEAR(draft.confidence[k], confidence[k], kConfidence) << "step " << i << " slot " << k;
  }
}

void ForceContinuation(tools::Session& session, const base::Json& p, double margin,
                       Agreement* seen) {
  const auto prompt = p["prompt_ids"].get<std::vector<int32_t>>();
  const auto tokens = p["tokens"].get<std::vector<int32_t>>();
  Result<tools::ScopedSequence> sequence = tools::ScopedSequence::Open(*session.model);
  ASSERT_TRUE(sequence.ok());
  model::StepOutput output;
  ASSERT_TRUE(tools::Prefill(*session.model, sequence->id(), prompt, 0, &output).ok());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t best = ArgMax(output.logits.data(), session.config().vocab_size);
    ++seen->steps;
    seen->equal += best == tokens[i];
    if (p["margin"][i].get<double>() > margin) {
      EXPECT_EQ(best, tokens[i]) << "step " << i;
    }
    if (i > 0) CompareDraft(session, sequence->id(), p, i, seen);
    const model::Chunk chunk{.sequence = sequence->id(), .tokens = {&tokens[i], 1}};
    ASSERT_TRUE(session.model->Step({&chunk, 1}, &output).ok());
  }
}

}  // namespace

void CheckHeldout(const std::string& backend, int stride) {
  tools::Session session = OpenNano(backend);
  const std::map<size_t, double> reference = ReferenceLosses();
  const std::vector<base::Json> documents = Heldout();
  Totals totals;
  for (size_t line = 0; line < documents.size(); line += static_cast<size_t>(stride)) {
    ScoreInto(session, documents[line], line, reference, &totals);
  }
  const double perplexity = std::exp(totals.nll / static_cast<double>(totals.tokens));
  const double rms = std::sqrt(totals.squares / totals.compared);
  fmt::print(
      "{}: {} tokens, perplexity {:.4f}, RMS of {} documents against the reference {:.4f} a "
      "token\n",
      backend, totals.tokens, perplexity, totals.compared, rms);
  ASSERT_GT(totals.compared, 0);
  EXPECT_LE(rms, kLossRms);
  if (stride == 1) {
    EXPECT_NEAR(perplexity, kPublishedPerplexity, 0.003 * kPublishedPerplexity);
  }
}

void CheckReference(const std::string& backend, int prompts, double margin, double agreement) {
  tools::Session session = OpenNano(backend);
  const base::Json reference = ReadJson(SourceDir() / "tests/data/nano/reference.json");
  Agreement seen;
  for (size_t i = 0; i < reference["prompts"].size() && static_cast<int>(i) < prompts; ++i) {
    SCOPED_TRACE(fmt::format("prompt {}", i));
    ForceContinuation(session, reference["prompts"][i], margin, &seen);
  }
  fmt::print("{}: {} of {} best tokens, {} of {} draft blocks equal\n", backend, seen.equal,
             seen.steps, seen.equal_blocks, seen.blocks);
  EXPECT_GE(seen.equal, agreement * seen.steps);
  EXPECT_GE(seen.equal_blocks, kDraftAgreement * seen.blocks);
}

}  // namespace thalweg::tests
