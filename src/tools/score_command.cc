// `thalweg score`: log-probabilities and perplexity of given text or ids.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "tools/command.h"
#include "tools/documents.h"
#include "tools/progress.h"
#include "tools/score.h"
#include "tools/session.h"

namespace thalweg::tools {
namespace {

// Writes "<document>/logits" [positions, vocab] of every document while they are scored.
class LogitFile {
 public:
  static Result<LogitFile> Open(const std::string& path, const std::vector<Document>& documents,
                                const model::Replay& replay, const checkpoint::Config& config) {
    std::vector<checkpoint::TensorSpec> specs;
    for (size_t i = 0; i < documents.size(); ++i) {
      const auto length = static_cast<int64_t>(documents[i].ids.size());
      specs.push_back({fmt::format("{}/logits", i),
                       tensor::DType::kF32,
                       {length - replay.DecoderFrom(length, config), config.vocab_size}});
    }
    TW_ASSIGN(checkpoint::SafetensorsWriter writer,
              checkpoint::SafetensorsWriter::Begin(path, specs));
    return LogitFile(std::move(writer));
  }

  Status Append(std::span<const float> logits) { return writer_.Append(std::as_bytes(logits)); }
  Status Finish() { return writer_.Finish(); }

 private:
  explicit LogitFile(checkpoint::SafetensorsWriter writer) : writer_(std::move(writer)) {}
  checkpoint::SafetensorsWriter writer_;
};

base::Json DocumentJson(const DocumentScore& score, bool with_logprobs) {
  base::Json json = {
      {"tokens", score.tokens},
      {"nll", score.nll},
      {"mean_nll", score.tokens > 0 ? score.nll / static_cast<double>(score.tokens) : 0.0},
      {"first_predicted", score.first_predicted}};
  if (with_logprobs) json["logprobs"] = score.logprobs;
  return json;
}

void Report(const std::vector<DocumentScore>& scores, const OptionValues& values) {
  int64_t tokens = 0;
  double nll = 0;
  base::Json documents = base::Json::array();
  for (const DocumentScore& score : scores) {
    tokens += score.tokens;
    nll += score.nll;
    documents.push_back(DocumentJson(score, values.Flag("logprobs") || scores.size() == 1));
  }
  const double mean = tokens > 0 ? nll / static_cast<double>(tokens) : 0.0;
  if (values.Flag("json")) {
    const base::Json json = {{"tokens", tokens},
                             {"nll", nll},
                             {"mean_nll", mean},
                             {"perplexity", std::exp(mean)},
                             {"replay", values.Text("replay")},
                             {"backend", values.Text("backend")},
                             {"documents", documents}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print(
      "documents   {}\ntokens      {}\nnll         {:.4f} ({:.4f} a token)\nperplexity  {:.4f}\n",
      scores.size(), tokens, nll, mean, std::exp(mean));
}

Result<std::vector<DocumentScore>> ScoreAll(const std::vector<Document>& documents,
                                            const model::Replay& replay, Session* session,
                                            std::optional<LogitFile>* logits) {
  Progress progress("scoring", static_cast<int64_t>(documents.size()));
  std::vector<DocumentScore> scores;
  const LogitSink sink = [&](int64_t, std::span<const float> rows, int64_t) {
    return (*logits)->Append(rows);
  };
  for (size_t i = 0; i < documents.size(); ++i) {
    Result<DocumentScore> score = ScoreDocument(*session->model, documents[i].ids, replay,
                                                logits->has_value() ? sink : LogitSink());
    if (!score.ok()) return score.status().WithContext(fmt::format("document {}", i));
    scores.push_back(std::move(*score));
    progress.Advance(fmt::format("{} of {}", i + 1, documents.size()));
  }
  return scores;
}

Result<int> Score(const OptionValues& values) {
  TW_ASSIGN(SessionOptions options, SessionOptions::From(values));
  TW_ASSIGN(options.ranks, engine::EngineOptions::ForwardFrom(values));
  TW_ASSIGN(Session session, OpenSession(options));
  TW_ASSIGN(const model::Replay replay, ReplayFrom(values, session.config()));
  TW_ASSIGN(const std::vector<Document> documents, ReadDocuments(values, session));
  std::optional<LogitFile> logits;
  if (values.Has("logits")) {
    TW_ASSIGN(logits, LogitFile::Open(values.Text("logits"), documents, replay, session.config()));
  }
  TW_ASSIGN(const std::vector<DocumentScore> scores,
            ScoreAll(documents, replay, &session, &logits));
  if (logits.has_value()) TW_TRY(logits->Finish());
  Report(scores, values);
  return kExitOk;
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = ModelOptionRows();
  for (OptionRow& row : ReplayOptionRows("full")) rows.push_back(std::move(row));
  for (OptionRow& row : engine::EngineOptions::RankRows()) rows.push_back(std::move(row));
  for (OptionRow& row : DocumentOptionRows()) rows.push_back(std::move(row));
  const std::vector<OptionRow> own = {
      {.name = "logits", .help = "write the logits to a safetensors file", .value_name = "FILE"},
      {.name = "logprobs",
       .kind = OptionKind::kFlag,
       .help = "with --json: every token's log-probability"},
      {.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  return rows;
}

}  // namespace

Command ScoreCommand() {
  return {.name = "score",
          .about = "Log-probabilities and perplexity of given text or token ids",
          .options = Rows(),
          .positionals = {},
          .run = Score};
}

}  // namespace thalweg::tools
