#include "tools/eval/score.h"

#include <fmt/format.h>

#include <map>

#include "api/json_values.h"
#include "api/output_json.h"
#include "tools/batch/line_reader.h"
#include "tools/batch/result_line.h"

namespace thalweg::tools::eval {
namespace {

using base::Json;

constexpr int64_t kMostCount = int64_t{1} << 53;

Json KeyJson(const Item& item, std::string_view run) {
  Json json = {{"line", item.line}};
  if (!item.id.empty()) json["id"] = item.id;
  json["input"] = batch::HashText(item.hash);
  json["run"] = run;
  json["kind"] = KindName(item.kind);
  json["group"] = item.group;
  return json;
}

Result<Kind> KindNamed(const std::string& name) {
  for (const Kind kind : {Kind::kPerplexity, Kind::kChoice, Kind::kExact, Kind::kSchema}) {
    if (KindName(kind) == name) return kind;
  }
  return base::InvalidArgument(fmt::format("\"{}\" is no kind of item", name));
}

Status ReadLikelihood(const Json& json, Score* score) {
  for (const char* name : {"tokens", "bytes", "nll"}) {
    if (!json.contains(name)) return base::InvalidArgument(fmt::format("{} is missing", name));
  }
  TW_ASSIGN(score->tokens, api::ReadInteger(json["tokens"], "tokens", 0, kMostCount));
  TW_ASSIGN(score->bytes, api::ReadInteger(json["bytes"], "bytes", 0, kMostCount));
  TW_ASSIGN(score->nll, api::ReadReal(json["nll"], "nll"));
  return {};
}

Status ReadMarks(const Json& json, Score* score) {
  if (!json.contains("marks") || !json["marks"].is_object())
    return base::InvalidArgument("marks must be an object");
  for (const auto& [name, value] : json["marks"].items()) {
    TW_ASSIGN(const bool yes, api::ReadBool(value, name));
    score->marks.emplace_back(name, yes);
  }
  return {};
}

}  // namespace

std::string ScoreLine(const Item& item, std::string_view run, const Score& score) {
  Json json = KeyJson(item, run);
  if (item.kind == Kind::kPerplexity) {
    json["tokens"] = score.tokens;
    json["bytes"] = score.bytes;
    json["nll"] = score.nll;
  } else {
    json["marks"] = Json::object();
    for (const auto& [name, yes] : score.marks) json["marks"][name] = yes;
  }
  json.update(score.details);
  return api::DumpJson(json) + "\n";
}

std::string ScoreErrorLine(const Item& item, std::string_view run, const Error& error) {
  Json json = KeyJson(item, run);
  json["error"] = api::ErrorJson(error);
  return api::DumpJson(json) + "\n";
}

Result<Score> ParseScoreLine(std::string_view text) {
  TW_ASSIGN(const Json json, base::ParseJson(text, "the line"));
  Score score;
  for (const char* name : {"kind", "group"}) {
    if (!json.is_object() || !json.contains(name))
      return base::InvalidArgument(fmt::format("{} is missing", name));
  }
  TW_ASSIGN(const std::string kind, api::ReadString(json["kind"], "kind"));
  TW_ASSIGN(score.kind, KindNamed(kind));
  TW_ASSIGN(score.group, api::ReadString(json["group"], "group"));
  score.error = json.contains("error");
  if (score.error) return score;
  TW_TRY(score.kind == Kind::kPerplexity ? ReadLikelihood(json, &score) : ReadMarks(json, &score));
  return score;
}

Result<std::vector<Score>> ReadScores(const std::string& path) {
  TW_ASSIGN(batch::LineReader reader, batch::LineReader::Open(path, kMaxLineBytes));
  std::map<int64_t, Score> by_line;
  while (true) {
    TW_ASSIGN(const std::optional<batch::Line> line, reader.Next());
    if (!line.has_value()) break;
    const std::string where = fmt::format("{}:{}", path, line->number);
    const auto key = batch::ParseResultLine(line->text);
    if (!key.ok()) return key.status().WithContext(where);
    Result<Score> score = ParseScoreLine(line->text);
    if (!score.ok()) return score.status().WithContext(where);
    by_line[key->number] = std::move(*score);
  }
  std::vector<Score> scores;
  for (auto& [line, score] : by_line) scores.push_back(std::move(score));
  return scores;
}

}  // namespace thalweg::tools::eval
