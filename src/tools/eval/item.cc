#include "tools/eval/item.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "api/argument_check.h"
#include "api/params_json.h"
#include "api/request_json.h"
#include "tools/batch/line_reader.h"

namespace thalweg::tools::eval {
namespace {

using api::WrongValue;
using base::Json;

constexpr std::array<std::string_view, 4> kKinds = {"perplexity", "choice", "exact", "schema"};
constexpr size_t kMostShownErrors = 10;
constexpr int64_t kMostAnswerTokens = 256;  // where the line says nothing

// Fields of every kind, and those of one kind alone.
constexpr std::array<std::string_view, 5> kCommon = {"id", "kind", "group", "add_special_tokens",
                                                     "parse_special_tokens"};
constexpr std::array<std::string_view, 3> kOfPerplexity = {"text", "ids", "context"};
constexpr std::array<std::string_view, 3> kOfChoice = {"prompt", "choices", "answer"};
constexpr std::array<std::string_view, 6> kOfExact = {"prompt", "answer",  "normalise",
                                                      "match",  "extract", "params"};
constexpr std::array<std::string_view, 5> kOfSchema = {"prompt", "schema", "constrained", "answer",
                                                       "params"};

std::span<const std::string_view> FieldsOf(Kind kind) {
  switch (kind) {
    case Kind::kPerplexity: return kOfPerplexity;
    case Kind::kChoice: return kOfChoice;
    case Kind::kExact: return kOfExact;
    default: return kOfSchema;
  }
}

bool Among(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status CheckFields(const Json& json, Kind kind) {
  const std::span<const std::string_view> own = FieldsOf(kind);
  for (const auto& [name, value] : json.items()) {
    if (Among(kCommon, name) || Among(own, name)) continue;
    return base::InvalidArgument(
        fmt::format("unknown field \"{}\" in an item of kind {}; known: "
                    "{}, {}",
                    name, KindName(kind), fmt::join(kCommon, ", "), fmt::join(own, ", ")));
  }
  return {};
}

Result<const Json*> Needed(const Json& json, const char* name) {
  const auto at = json.find(name);
  if (at != json.end()) return &*at;
  return base::InvalidArgument(fmt::format("{} is missing", name));
}

Status ReadName(const Json& json, const char* name, std::string* out) {
  if (!json.contains(name)) return {};
  TW_ASSIGN(*out, api::ReadString(json[name], name));
  if (!out->empty() && out->size() <= kMaxNameBytes) return {};
  return base::OutOfRange(fmt::format("{} must have from 1 to {} bytes", name, kMaxNameBytes));
}

Result<Kind> KindOf(const Json& json) {
  TW_ASSIGN(const Json* value, Needed(json, "kind"));
  TW_ASSIGN(const std::string name, api::ReadString(*value, "kind"));
  const auto at = std::find(kKinds.begin(), kKinds.end(), name);
  if (at == kKinds.end())
    return WrongValue(*value, "kind", fmt::format("one of {}", fmt::join(kKinds, ", ")));
  return static_cast<Kind>(at - kKinds.begin());
}

Status ReadFlag(const Json& json, const char* name, bool* out) {
  if (!json.contains(name)) return {};
  TW_ASSIGN(*out, api::ReadBool(json[name], name));
  return {};
}

Status ReadPrompt(const Json& json, Item* item) {
  TW_ASSIGN(const Json* prompt, Needed(json, "prompt"));
  TW_ASSIGN(item->prompt, api::PromptFromJson(*prompt, "prompt"));
  return {};
}

Status ReadParams(const Json& json, Item* item) {
  item->params.temperature = 0;
  item->params.max_tokens = kMostAnswerTokens;
  if (!json.contains("params")) return {};
  const Json& params = json["params"];
  TW_TRY(api::SetParams(params, &item->params));
  if (item->params.n != 1) return WrongValue(params["n"], "params.n", "1: one answer is judged");
  if (item->kind == Kind::kSchema && !item->params.so_args.empty())
    return base::InvalidArgument("params: \"constrained\": true binds the answer to the schema");
  return {};
}

Status ReadPerplexity(const Json& json, Item* item) {
  if (json.contains("text") == json.contains("ids"))
    return base::InvalidArgument("give one of text and ids");
  if (json.contains("ids")) {
    TW_ASSIGN(item->prompt, api::ReadTokens(json["ids"], "ids"));
  } else {
    TW_ASSIGN(item->prompt, api::ReadString(json["text"], "text"));
  }
  if (!json.contains("context")) return {};
  TW_ASSIGN(item->context, api::PromptFromJson(json["context"], "context"));
  return {};
}

Status ReadChoice(const Json& json, Item* item) {
  TW_TRY(ReadPrompt(json, item));
  TW_ASSIGN(const Json* choices, Needed(json, "choices"));
  TW_ASSIGN(item->choices, api::ReadStrings(*choices, "choices"));
  if (item->choices.size() < 2 || item->choices.size() > kMaxChoices)
    return base::InvalidArgument(fmt::format("choices: must be from 2 to {}", kMaxChoices));
  for (const std::string& choice : item->choices) {
    if (choice.empty()) return base::InvalidArgument("choices: one of them is empty");
  }
  TW_ASSIGN(const Json* answer, Needed(json, "answer"));
  const auto last = static_cast<int64_t>(item->choices.size()) - 1;
  TW_ASSIGN(const int64_t right, api::ReadInteger(*answer, "answer", 0, last));
  item->right_choice = static_cast<size_t>(right);
  return {};
}

Status ReadRule(const Json& json, AnswerRule* rule) {
  if (json.contains("normalise")) {
    TW_ASSIGN(const std::vector<std::string> names,
              api::ReadStrings(json["normalise"], "normalise"));
    TW_TRY(SetNormalisation(names, rule));
  }
  if (json.contains("extract")) {
    TW_ASSIGN(const std::string name, api::ReadString(json["extract"], "extract"));
    TW_ASSIGN(rule->extract, ParseExtract(name));
  }
  if (!json.contains("match")) return {};
  TW_ASSIGN(const std::string name, api::ReadString(json["match"], "match"));
  TW_ASSIGN(rule->match, ParseMatch(name));
  return {};
}

// An expected answer that can match nothing, or everything, is a mistake of the set.
Status CheckAnswers(const Item& item) {
  if (item.answers.empty() || item.answers.size() > kMaxAnswers)
    return base::InvalidArgument(fmt::format("answer: must be from 1 to {}", kMaxAnswers));
  for (const std::string& answer : item.answers) {
    const Result<std::string> comparable = Comparable(answer, item.rule);
    if (!comparable.ok()) return comparable.status().WithContext("answer");
    if (comparable->empty()) return base::InvalidArgument("answer: nothing is left to compare");
  }
  return {};
}

Status ReadExact(const Json& json, Item* item) {
  TW_TRY(ReadPrompt(json, item));
  TW_TRY(ReadParams(json, item));
  TW_TRY(ReadRule(json, &item->rule));
  TW_ASSIGN(const Json* answer, Needed(json, "answer"));
  TW_ASSIGN(item->answers, api::ReadStrings(*answer, "answer"));
  return CheckAnswers(*item);
}

Status ReadSchema(const Json& json, Item* item) {
  TW_TRY(ReadPrompt(json, item));
  TW_TRY(ReadParams(json, item));
  TW_TRY(ReadFlag(json, "constrained", &item->constrained));
  TW_ASSIGN(const Json* schema, Needed(json, "schema"));
  item->schema = *schema;
  auto check = api::ArgumentCheck::Create(item->schema);
  if (!check.ok()) return check.status().WithContext("schema");
  item->check = std::make_shared<const api::ArgumentCheck>(std::move(*check));
  if (!json.contains("answer")) return {};
  item->answers = {json["answer"].dump()};
  item->rule.extract = Extract::kJson;
  const Status fits = item->check->Check(item->answers.front());
  return fits.ok() ? fits : fits.WithContext("answer does not fit the item's own schema");
}

Status ReadOwnFields(const Json& json, Item* item) {
  switch (item->kind) {
    case Kind::kPerplexity: return ReadPerplexity(json, item);
    case Kind::kChoice: return ReadChoice(json, item);
    case Kind::kExact: return ReadExact(json, item);
    default: return ReadSchema(json, item);
  }
}

bool IsBlank(const batch::Line& line) {
  return !line.too_long && line.text.find_first_not_of(" \t\r") == std::string::npos;
}

Result<Item> ItemOf(const batch::Line& line) {
  if (line.too_long)
    return base::OutOfRange(fmt::format("the line has more than {} bytes", kMaxLineBytes));
  TW_ASSIGN(Item item, ParseItem(line.text));
  item.line = line.number;
  item.hash = line.hash;
  return item;
}

// Good items, and what is wrong with the others.
class SetReader {
 public:
  explicit SetReader(std::string path) : path_(std::move(path)) {}

  void Take(const batch::Line& line) {
    Result<Item> item = ItemOf(line);
    if (item.ok() && !item->id.empty()) {
      const auto [at, is_new] = lines_.emplace(item->id, line.number);
      if (!is_new) {
        item = base::InvalidArgument(
            fmt::format("id \"{}\" stands on line {}, too", item->id, at->second));
      }
    }
    if (item.ok()) return items_.push_back(std::move(*item));
    if (++bad_ <= kMostShownErrors)
      errors_ += fmt::format("\n  {}:{}: {}", path_, line.number, item.status().message());
  }

  Result<std::vector<Item>> Finish() {
    if (bad_ > kMostShownErrors)
      errors_ += fmt::format("\n  and {} lines more", bad_ - kMostShownErrors);
    if (bad_ > 0) return base::InvalidArgument(fmt::format("bad items:{}", errors_));
    if (items_.empty()) return base::InvalidArgument(fmt::format("{}: no item in it", path_));
    if (items_.size() <= kMaxItems) return std::move(items_);
    return base::OutOfRange(fmt::format("{}: more than {} items", path_, kMaxItems));
  }

 private:
  std::string path_;
  std::vector<Item> items_;
  std::unordered_map<std::string, int64_t> lines_;  // of ids
  size_t bad_ = 0;
  std::string errors_;
};

}  // namespace

std::string_view KindName(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

Result<Item> ParseItem(std::string_view text) {
  TW_ASSIGN(const Json json, base::ParseJson(text, "the line"));
  if (!json.is_object()) return WrongValue(json, "the line", "an object");
  Item item;
  TW_ASSIGN(item.kind, KindOf(json));
  TW_TRY(CheckFields(json, item.kind));
  item.group = KindName(item.kind);
  TW_TRY(ReadName(json, "id", &item.id));
  TW_TRY(ReadName(json, "group", &item.group));
  TW_TRY(ReadFlag(json, "add_special_tokens", &item.options.add_special_tokens));
  TW_TRY(ReadFlag(json, "parse_special_tokens", &item.options.parse_special_tokens));
  TW_TRY(ReadOwnFields(json, &item));
  return item;
}

Result<std::vector<Item>> ReadSet(const std::string& path) {
  TW_ASSIGN(batch::LineReader reader, batch::LineReader::Open(path, kMaxLineBytes));
  if (static_cast<uint64_t>(reader.file_bytes()) > kMaxSetBytes)
    return base::OutOfRange(fmt::format("{} has more than {} MiB", path, kMaxSetBytes >> 20));
  SetReader set(path);
  while (true) {
    TW_ASSIGN(const std::optional<batch::Line> line, reader.Next());
    if (!line.has_value()) return set.Finish();
    if (!IsBlank(*line)) set.Take(*line);
  }
}

}  // namespace thalweg::tools::eval
