// `thalweg verify`, `dump` and `compare`: is the arithmetic right, and where does it begin to
// differ.
#include <fmt/format.h>

#include "base/mapped_file.h"
#include "tools/command.h"
#include "tools/compare.h"
#include "tools/documents.h"
#include "tools/dump.h"
#include "tools/session.h"
#include "tools/verify/verify.h"

namespace thalweg::tools {
namespace {

constexpr uint64_t kMaxTextBytes = 1ull << 30;

OptionRow JsonRow() { return {.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"}; }

Result<int> RunVerify(const OptionValues& values) {
  VerifyOptions options;
  options.golden_dir = values.positionals().front();
  options.threads = static_cast<int>(values.Integer("threads"));
  options.pinning = PinningFrom(values);
  TW_ASSIGN(options.ops, OpsFrom(values));
  TW_ASSIGN(const VerifyReport report, Verify(options));
  fmt::print("{}", values.Flag("json") ? ToJson(report).dump() + "\n" : ToText(report));
  return report.ok() ? kExitOk : kExitCheckFailed;
}

// "1,4 7" as whole numbers.
Result<std::vector<int>> Layers(const std::string& text) {
  if (text.empty()) return std::vector<int>{};
  TW_ASSIGN(const std::vector<int32_t> layers, ParseTokenIds(text));
  return std::vector<int>(layers.begin(), layers.end());
}

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(", ", at);
    if (begin == std::string::npos) break;
    at = std::min(text.find_first_of(", ", begin), text.size());
    words.push_back(text.substr(begin, at - begin));
  }
  return words;
}

Result<std::vector<int32_t>> DumpIds(const OptionValues& values, const Session& session) {
  if (values.Has("ids") == values.Has("text"))
    return base::InvalidArgument("give one of --ids and --text");
  if (values.Has("ids")) return ParseTokenIds(values.Text("ids"));
  TW_ASSIGN(const std::string text, base::ReadFile(values.Text("text"), kMaxTextBytes));
  std::vector<int32_t> ids = session.tokenizer->Encode(text, text::Specials::kAsText);
  ids.insert(ids.begin(), static_cast<int32_t>(session.config().bos_token_id));
  return ids;
}

Result<int> RunDump(const OptionValues& values) {
  if (!values.Has("out")) return base::InvalidArgument("name the file to write with --out");
  TW_ASSIGN(SessionOptions options, SessionOptions::From(values));
  options.draft = true;
  TW_ASSIGN(Session session, OpenSession(options));
  TW_ASSIGN(const std::vector<int32_t> ids, DumpIds(values, session));
  DumpFilter filter;
  TW_ASSIGN(filter.layers, Layers(values.Text("layers")));
  filter.points = Words(values.Text("points"));
  TW_ASSIGN(const int64_t tensors, Dump(*session.model, ids, filter, values.Text("out")));
  fmt::print(stderr, "wrote {} tensors to {}\n", tensors, values.Text("out"));
  return kExitOk;
}

Result<int> RunCompare(const OptionValues& values) {
  CompareBudget budget;
  budget.relative_rms = values.Real("relative-rms");
  budget.max_abs = values.OptionalReal("max-abs").value_or(budget.max_abs);
  TW_ASSIGN(const CompareReport report,
            CompareDumps(values.positionals()[0], values.positionals()[1], budget));
  fmt::print("{}", values.Flag("json") ? ToJson(report).dump() + "\n" : ToText(report));
  return report.ok() ? kExitOk : kExitCheckFailed;
}

std::vector<OptionRow> DumpRows() {
  std::vector<OptionRow> rows = ModelOptionRows();
  rows.push_back(
      {.name = "ids", .help = "token ids, separated by commas or blanks", .value_name = "IDS"});
  rows.push_back(
      {.name = "text", .help = "a text file; a begin token is put in front", .value_name = "FILE"});
  rows.push_back({.name = "out", .help = "safetensors file to write", .value_name = "FILE"});
  rows.push_back(
      {.name = "layers", .help = "layers to keep; all without it", .value_name = "LIST"});
  rows.push_back({.name = "points",
                  .help = "points to keep, such as attn_out,streams_out",
                  .value_name = "LIST"});
  return rows;
}

std::vector<OptionRow> CompareRows() {
  return {{.name = "relative-rms",
           .kind = OptionKind::kReal,
           .help = "allowed RMS of the difference over the RMS of the first file's tensor",
           .fallback = "0",
           .most = 1e9},
          {.name = "max-abs",
           .kind = OptionKind::kReal,
           .help = "allowed largest difference",
           .most = 1e30},
          JsonRow()};
}

}  // namespace

Command VerifyCommand() {
  std::vector<OptionRow> rows = MachineOptionRows();
  rows.front().fallback = "reference";
  rows.push_back(JsonRow());
  return {.name = "verify",
          .about =
              "Check a backend against golden vectors: exact parts, every layer, end to end, "
              "decode, drafts",
          .options = std::move(rows),
          .positionals = {.name = "GOLDEN_DIR",
                          .help = "folder with model/, golden.safetensors, manifest.json",
                          .least = 1,
                          .most = 1},
          .run = RunVerify};
}

Command DumpCommand() {
  return {.name = "dump",
          .about = "Write intermediate tensors of a forward as safetensors",
          .options = DumpRows(),
          .run = RunDump};
}

Command CompareCommand() {
  return {.name = "compare",
          .about = "Print the first point where two dumps differ by more than allowed",
          .options = CompareRows(),
          .positionals = {.name = "FILES", .help = "two dumps", .least = 2, .most = 2},
          .run = RunCompare};
}

}  // namespace thalweg::tools
