#include "tools/constraint_options.h"

#include <fmt/format.h>

#include <array>

#include "base/json.h"
#include "base/mapped_file.h"
#include "grammar/limits.h"

namespace thalweg::tools {
namespace {

using base::OptionKind;
using base::OptionRow;
using base::OptionValues;

constexpr std::array<const char*, 3> kKinds = {"json-schema", "regex", "ebnf"};

// The one that is given; empty: none.
Result<std::string> KindGiven(const OptionValues& values) {
  std::string given;
  for (const char* kind : kKinds) {
    if (!values.Has(kind)) continue;
    if (!given.empty()) {
      return base::InvalidArgument(fmt::format("give one of --{} and --{}, not both", given, kind));
    }
    given = kind;
  }
  return given;
}

Status CheckSchemaOptions(const OptionValues& values, std::string_view kind) {
  if (kind == "json-schema") return {};
  for (const char* name : {"any-order", "strict-schema"}) {
    if (values.Flag(name))
      return base::InvalidArgument(fmt::format("--{} is for --json-schema: leave it out", name));
  }
  if (values.Has("whitespace"))
    return base::InvalidArgument("--whitespace is for --json-schema: leave it out");
  return {};
}

Result<std::string> ReadSource(const std::string& file) {
  return base::ReadFile(file, static_cast<uint64_t>(grammar::Limits().source_bytes));
}

Result<base::Json> SchemaArgs(const OptionValues& values) {
  const std::string file = values.Text("json-schema");
  TW_ASSIGN(const std::string text, ReadSource(file));
  base::Json args;
  args["type"] = "json_schema";
  TW_ASSIGN(args["content"], base::ParseJson(text, file, {.max_depth = 512}));
  if (values.Has("whitespace")) args["whitespace"] = values.Text("whitespace");
  if (values.Flag("any-order")) args["any_order"] = true;
  if (values.Flag("strict-schema")) args["strict"] = true;
  return args;
}

}  // namespace

std::vector<OptionRow> ConstraintOptionRows() {
  return {{.name = "json-schema",
           .help = "the text is JSON that this schema allows",
           .value_name = "FILE"},
          {.name = "regex", .help = "the text matches it as a whole", .value_name = "REGEX"},
          {.name = "ebnf",
           .help = "the text is of this grammar (GBNF, W3C or Lark notation)",
           .value_name = "FILE"},
          {.name = "whitespace",
           .help = "with --json-schema: flexible (default: some, where JSON "
                   "allows it), compact "
                   "(none), python (as json.dumps writes)",
           .choices = {"flexible", "compact", "python"}},
          {.name = "any-order",
           .kind = OptionKind::kFlag,
           .help = "with --json-schema: members in any order, not in that of "
                   "the schema"},
          {.name = "strict-schema",
           .kind = OptionKind::kFlag,
           .help = "with --json-schema: objects that do not say otherwise have "
                   "no other members"}};
}

Result<std::string> SoArgsFrom(const OptionValues& values) {
  TW_ASSIGN(const std::string kind, KindGiven(values));
  TW_TRY(CheckSchemaOptions(values, kind));
  if (kind.empty()) return std::string();
  if (kind == "json-schema") {
    TW_ASSIGN(const base::Json args, SchemaArgs(values));
    return args.dump();
  }
  base::Json args;
  args["type"] = kind;
  args["content"] = values.Text(kind);
  if (kind == "ebnf") {
    TW_ASSIGN(args["content"], ReadSource(values.Text(kind)));
  }
  return args.dump();
}

}  // namespace thalweg::tools
