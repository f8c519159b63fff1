#include "tools/documents.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/mapped_file.h"
#include "tools/dump.h"

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

}  // namespace

std::vector<OptionRow> DocumentOptionRows() {
  return {
      {.name = "ids", .help = "token ids, separated by commas or blanks", .value_name = "IDS"},
      {.name = "text", .help = "a text file; a begin token is put in front", .value_name = "FILE"},
      {.name = "ids-file",
       .help = "JSONL with \"ids\" in each line; every line on its own",
       .value_name = "FILE"}};
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

}  // namespace thalweg::tools
