// `thalweg grammar`: constraints on text without a model.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/mapped_file.h"
#include "tools/command.h"
#include "tools/constraint_options.h"
#include "tools/grammar/bench.h"
#include "tools/grammar/check.h"

namespace thalweg::tools {
namespace {

constexpr uint64_t kMostTextBytes = 256ull << 20;
constexpr int kExitIncomplete = 3;

Result<GrammarVocabulary> VocabularyOf(const OptionValues& values) {
  if (!values.Has("tokenizer")) {
    return base::InvalidArgument(
        "grammar needs --tokenizer: tokenizer.json, or a folder that has it");
  }
  return GrammarVocabulary::Load(values.Text("tokenizer"));
}

Result<std::string> TextOf(const OptionValues& values) {
  if (!values.Has("text"))
    return base::InvalidArgument("check needs --text: a file, or - for standard input");
  const std::string file = values.Text("text");
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  return base::ReadFile(file, kMostTextBytes);
}

Result<int> Check(const OptionValues& values) {
  TW_ASSIGN(const std::string so_args, SoArgsFrom(values));
  if (so_args.empty())
    return base::InvalidArgument("check needs one of --json-schema, --regex and --ebnf");
  TW_ASSIGN(const std::string text, TextOf(values));
  TW_ASSIGN(const GrammarVocabulary vocabulary, VocabularyOf(values));
  TW_ASSIGN(const GrammarVerdict verdict, CheckText(vocabulary, so_args, text));
  const bool json = values.Flag("json");
  fmt::print("{}", json ? ToJson(verdict).dump(2) + "\n" : Describe(verdict, text));
  switch (verdict.kind) {
    case GrammarVerdict::Kind::kAccepted: return kExitOk;
    case GrammarVerdict::Kind::kRejected: return kExitCheckFailed;
    case GrammarVerdict::Kind::kIncomplete: return kExitIncomplete;
  }
  return kExitError;
}

Status WriteJson(const GrammarBenchReport& report, const std::string& file) {
  const std::string text = ToJson(report).dump(2) + "\n";
  if (file != "-") return base::WriteFile(file, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

Result<int> Bench(const OptionValues& values) {
  GrammarBenchOptions options;
  options.folder = values.positionals().front();
  options.limit = values.Integer("limit");
  options.schema.any_order = values.Flag("any-order");
  TW_ASSIGN(const GrammarVocabulary vocabulary, VocabularyOf(values));
  TW_ASSIGN(const GrammarBenchReport report, BenchGrammars(vocabulary, options));
  if (values.Text("json") != "-") fmt::print("{}", Describe(report));
  if (values.Has("json")) TW_TRY(WriteJson(report, values.Text("json")));
  return report.invalid_accepted == 0 ? kExitOk : kExitCheckFailed;
}

OptionRow TokenizerRow() {
  return {
      .name = "tokenizer", .help = "tokenizer.json, or a folder that has it", .value_name = "FILE"};
}

std::vector<OptionRow> CheckRows() {
  std::vector<OptionRow> rows = ConstraintOptionRows();
  rows.push_back(TokenizerRow());
  rows.push_back({.name = "text",
                  .help = "the text to check; - for standard input. Special "
                          "tokens in it count as such",
                  .value_name = "FILE"});
  rows.push_back({.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"});
  return rows;
}

std::vector<OptionRow> BenchRows() {
  return {TokenizerRow(),
          {.name = "limit",
           .kind = OptionKind::kInteger,
           .help = "so many files, in the order of their names; 0: all",
           .fallback = "0",
           .most = 1e9},
          {.name = "any-order",
           .kind = OptionKind::kFlag,
           .help = "members of objects in any order, not in that of the schema"},
          {.name = "json",
           .help = "write the report as JSON; - to standard output, and nothing "
                   "else there",
           .value_name = "FILE"}};
}

}  // namespace

Command GrammarCheckCommand() {
  return {.name = "grammar check",
          .about =
              "Check a text against a JSON Schema, a regex or an EBNF "
              "grammar. Exit code 0: "
              "accepted; 1: rejected, the message says at which byte and "
              "what might stand "
              "there; 3: incomplete, it may go on to be accepted",
          .options = CheckRows(),
          .run = Check};
}

Command GrammarBenchCommand() {
  return {.name = "grammar bench",
          .about =
              "Measure a corpus of JSON Schemas: verdicts about "
              "instances, time of masks and "
              "compilation. Exit code 1: an invalid instance was accepted",
          .options = BenchRows(),
          .positionals = {.name = "DIR",
                          .help = "folder of .json files, each {\"schema\": ..., \"tests\": "
                                  "[{\"valid\": bool, \"data\": ...}]}",
                          .least = 1,
                          .most = 1},
          .run = Bench};
}

}  // namespace thalweg::tools
