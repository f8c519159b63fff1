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
#include "tools/dump.h"
#include "tools/progress.h"
#include "tools/score.h"
#include "tools/session.h"

namespace thalweg::tools {
namespace {

constexpr uint64_t kMaxInputBytes = 4ull << 30;

struct Document {
  std::vector<int32_t> ids;
};

Result<std::vector<int32_t>> IdsOf(const base::Json& json, std::string_view where) {
  std::vector<int32_t> ids;
  if (!json.is_array())
    return base::InvalidArgument(fmt::format("{}: ids must be an array of whole numbers", where));
  for (const base::Json& id : json) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
      return base::InvalidArgument(fmt::format("{}: {} is not a token id", where, id.dump()));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Result<std::vector<Document>> FromArgument(const std::string& text) {
  TW_ASSIGN(std::vector<int32_t> ids, ParseTokenIds(text));
  return std::vector<Document>{{std::move(ids)}};
}

// JSONL: one object with "ids" a line.
Result<std::vector<Document>> FromLines(const std::string& path) {
  TW_ASSIGN(const std::string content, base::ReadFile(path, kMaxInputBytes));
  std::vector<Document> documents;
  size_t line_number = 0;
  for (size_t at = 0; at < content.size();) {
    const size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view line(content.data() + at, end - at);
    at = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", path, line_number);
    TW_ASSIGN(const base::Json json, base::ParseJson(line, where));
    if (!json.is_object() || !json.contains("ids")) {
      return base::InvalidArgument(fmt::format("{}: no \"ids\" in this line", where));
    }
    TW_ASSIGN(std::vector<int32_t> ids, IdsOf(json["ids"], where));
    documents.push_back({std::move(ids)});
  }
  return documents;
}

Result<std::vector<Document>> FromText(const std::string& path, const Session& session) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxInputBytes));
  std::vector<int32_t> ids = session.tokenizer->Encode(text, text::Specials::kAsText);
  ids.insert(ids.begin(), static_cast<int32_t>(session.config().bos_token_id));
  return std::vector<Document>{{std::move(ids)}};
}

Result<std::vector<Document>> ReadDocuments(const OptionValues& values, const Session& session) {
  const int sources = values.Has("ids") + values.Has("text") + values.Has("ids-file");
  if (sources != 1)
    return base::InvalidArgument("give exactly one of --ids, --text and --ids-file");
  std::vector<Document> documents;
  if (values.Has("ids")) {
    TW_ASSIGN(documents, FromArgument(values.Text("ids")));
  } else if (values.Has("text")) {
    TW_ASSIGN(documents, FromText(values.Text("text"), session));
  } else {
    TW_ASSIGN(documents, FromLines(values.Text("ids-file")));
  }
  const bool any = std::any_of(documents.begin(), documents.end(),
                               [](const Document& d) { return d.ids.size() > 1; });
  if (!any) return base::InvalidArgument("nothing to score: no document has two tokens or more");
  return documents;
}

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
  TW_ASSIGN(const SessionOptions options, SessionOptions::From(values));
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
  const std::vector<OptionRow> own = {
      {.name = "ids", .help = "token ids, separated by commas or blanks", .value_name = "IDS"},
      {.name = "text", .help = "a text file; a begin token is put in front", .value_name = "FILE"},
      {.name = "ids-file",
       .help = "JSONL with \"ids\" in each line; every line on its own",
       .value_name = "FILE"},
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
