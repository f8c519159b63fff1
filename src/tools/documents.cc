#include "tools/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "base/mapped_file.h"

namespace thalweg::tools {
namespace {

constexpr uint64_t kMaxInputBytes = 4ull << 30;

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

std::vector<int32_t> Encode(const std::string& text, const Session& session) {
  std::vector<int32_t> ids = session.tokenizer->Encode(text, text::Specials::kAsText);
  ids.insert(ids.begin(), static_cast<int32_t>(session.config().bos_token_id));
  return ids;
}

// An object with "ids", or else with "text".
Result<Document> DocumentOf(const base::Json& json, const std::string& where,
                            const Session& session) {
  if (json.is_object() && json.contains("ids")) {
    TW_ASSIGN(std::vector<int32_t> ids, IdsOf(json["ids"], where));
    return Document{std::move(ids)};
  }
  if (json.is_object() && json.contains("text") && json["text"].is_string())
    return Document{Encode(json["text"].get<std::string>(), session)};
  return base::InvalidArgument(fmt::format("{}: no \"ids\" or \"text\" in this object", where));
}

// One object a line.
Result<std::vector<Document>> FromLines(std::string_view content, const std::string& path,
                                        const Session& session) {
  std::vector<Document> documents;
  size_t line_number = 0;
  for (size_t at = 0; at < content.size();) {
    const size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view line = content.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", path, line_number);
    TW_ASSIGN(const base::Json json, base::ParseJson(line, where));
    TW_ASSIGN(documents.emplace_back(), DocumentOf(json, where, session));
  }
  return documents;
}

// JSONL, or one array of such objects.
Result<std::vector<Document>> FromObjects(const std::string& path, const Session& session) {
  TW_ASSIGN(const std::string content, base::ReadFile(path, kMaxInputBytes));
  const size_t first = content.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || content[first] != '[') return FromLines(content, path, session);
  TW_ASSIGN(const base::Json array, base::ParseJson(content, path));
  std::vector<Document> documents;
  for (const base::Json& json : array) {
    const std::string where = fmt::format("{}[{}]", path, documents.size());
    TW_ASSIGN(documents.emplace_back(), DocumentOf(json, where, session));
  }
  return documents;
}

Result<std::vector<Document>> FromText(const std::string& path, const Session& session) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxInputBytes));
  return std::vector<Document>{{Encode(text, session)}};
}

}  // namespace

Result<std::vector<int32_t>> ParseTokenIds(std::string_view text) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    if (*at == ',' || *at == ' ') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && *next != ',' && *next != ' '))
      return base::InvalidArgument(
          fmt::format("\"{}\" is no list of token ids such as 12,7,9", text));
    ids.push_back(id);
    at = next;
  }
  if (ids.empty()) return base::InvalidArgument("no token ids were given");
  return ids;
}

std::vector<OptionRow> DocumentOptionRows() {
  return {
      {.name = "ids", .help = "token ids, separated by commas or blanks", .value_name = "IDS"},
      {.name = "text", .help = "a text file; a begin token is put in front", .value_name = "FILE"},
      {.name = "ids-file",
       .help =
           "JSONL with \"ids\" or \"text\" in each line, or a JSON array of such objects; each on "
           "its own",
       .value_name = "FILE"}};
}

static Status CheckLengths(const std::vector<Document>& documents) {
  const bool any = std::any_of(documents.begin(), documents.end(),
                               [](const Document& d) { return d.ids.size() > 1; });
  if (any) return {};
  return base::InvalidArgument("nothing to score: no document has two tokens or more");
}

Result<std::vector<Document>> ReadDocumentFile(const std::string& path, const Session& session) {
  TW_ASSIGN(std::vector<Document> documents, FromObjects(path, session));
  TW_TRY(CheckLengths(documents));
  return documents;
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
    TW_ASSIGN(documents, FromObjects(values.Text("ids-file"), session));
  }
  TW_TRY(CheckLengths(documents));
  return documents;
}

}  // namespace thalweg::tools
