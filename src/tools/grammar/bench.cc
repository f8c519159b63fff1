#include "tools/grammar/bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/mapped_file.h"
#include "grammar/matcher.h"
#include "text/python_json.h"
#include "tools/grammar/feed.h"
#include "tools/progress.h"

namespace thalweg::tools {
namespace {

using base::Json;

constexpr uint64_t kMostFileBytes = 64 << 20;

double MicrosecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// "schema at PATH: KEYWORD: what is wrong"; other messages count by their first
// words.
std::string KeywordOf(const std::string& message) {
  const size_t path = message.find("schema at ");
  const size_t begin = path == std::string::npos ? path : message.find(": ", path);
  if (begin == std::string::npos) return message.substr(0, 40);
  return message.substr(begin + 2, message.find(": ", begin + 2) - begin - 2);
}

Result<std::vector<std::filesystem::path>> FilesOf(const GrammarBenchOptions& options) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options.folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error) return base::NotFound(fmt::format("{}: {}", options.folder.string(), error.message()));
  if (files.empty())
    return base::NotFound(fmt::format("{} has no .json files", options.folder.string()));
  std::sort(files.begin(), files.end());
  if (options.limit > 0) files.resize(std::min(files.size(), static_cast<size_t>(options.limit)));
  return files;
}

Result<Json> ReadTestFile(const std::filesystem::path& file) {
  TW_ASSIGN(const std::string text, base::ReadFile(file, kMostFileBytes));
  TW_ASSIGN(Json json, base::ParseJson(text, file.string(), {.max_depth = 512}));
  const bool shaped = json.is_object() && json.contains("schema") && json.contains("tests") &&
                      json["tests"].is_array();
  if (shaped) return json;
  return base::InvalidArgument(fmt::format(
      R"({} is not of the form {{"schema": ..., "tests": [{{"valid": bool, "data": ...}}]}})",
      file.string()));
}

// One file after the other into the report.
class Bench {
 public:
  Bench(const GrammarVocabulary& vocabulary, const GrammarBenchOptions& options)
      : v_(vocabulary), options_(options) {}

  Status Take(const std::filesystem::path& file) {
    file_ = file.filename().string();
    masks_before_ = report_.mask_us.size();
    TW_ASSIGN(const Json json, ReadTestFile(file));
    ++report_.schemas;
    const Result<std::shared_ptr<grammar::Grammar>> made = Compile(json["schema"]);
    if (!made.ok()) return NoteCompileError(made.status());
    const size_t before = report_.failures.size();
    int number = 0;
    for (const Json& test : json["tests"]) {
      if (!test.is_object() || !test.value("valid", Json()).is_boolean() || !test.contains("data"))
        return base::InvalidArgument(
            fmt::format("{}: test {} has no valid or data", file_, number));
      TakeInstance(*made, test, number++);
    }
    report_.passed += report_.failures.size() == before ? 1 : 0;
    NoteSlow();
    report_.largest_grammar_bytes = std::max(report_.largest_grammar_bytes, (*made)->bytes());
    return {};
  }

  GrammarBenchReport Finish() {
    for (auto* samples : {&report_.mask_us, &report_.compile_us, &report_.first_mask_us})
      std::sort(samples->begin(), samples->end());
    rusage usage = {};
    if (getrusage(RUSAGE_SELF, &usage) == 0)
      report_.peak_bytes = static_cast<int64_t>(usage.ru_maxrss) << 10;
    return std::move(report_);
  }

 private:
  Result<std::shared_ptr<grammar::Grammar>> Compile(const Json& schema) {
    const auto begin = std::chrono::steady_clock::now();
    const grammar::Limits limits;
    TW_ASSIGN(grammar::Rules rules, grammar::CompileSchema(schema, options_.schema, limits));
    TW_ASSIGN(std::shared_ptr<grammar::Grammar> made,
              grammar::Grammar::Create(std::move(rules), v_.vocabulary, limits));
    report_.compile_us.push_back(MicrosecondsSince(begin));
    TW_TRY(grammar::Matcher(made).NextMask().status());
    report_.first_mask_us.push_back(MicrosecondsSince(begin));
    return made;
  }

  Status NoteCompileError(const Status& status) {
    ++report_.compile_errors;
    ++report_.errors_by_keyword[KeywordOf(status.message())];
    Fail(status.ToString());
    return {};
  }

  void NoteSlow() {
    const auto first = report_.mask_us.begin() + static_cast<int64_t>(masks_before_);
    if (first == report_.mask_us.end()) return;
    auto& slowest = report_.slowest;
    slowest.push_back({.file = file_,
                       .mask_us = *std::max_element(first, report_.mask_us.end()),
                       .compile_us = report_.compile_us.back()});
    std::sort(slowest.begin(), slowest.end(),
              [](const auto& a, const auto& b) { return a.mask_us > b.mask_us; });
    slowest.resize(std::min(slowest.size(), kShownSlow));
  }

  void Fail(std::string why) { report_.failures.push_back({.file = file_, .why = std::move(why)}); }

  // Where it is refused does not matter, so the first mask of an instance is
  // one of many.
  void TakeInstance(const std::shared_ptr<grammar::Grammar>& made, const Json& test, int number) {
    const bool valid = test["valid"].get<bool>();
    ++(valid ? report_.valid : report_.invalid);
    const std::string text = text::PythonJson(test["data"]);
    const std::vector<int32_t> tokens = v_.tokenizer->Encode(text, text::Specials::kAsText);
    grammar::Matcher matcher(made);
    const Result<int64_t> taken = Feed(tokens, &matcher, [this](uint64_t ns) {
      report_.mask_us.push_back(static_cast<double>(ns) / 1000);
    });
    if (!taken.ok()) return Fail(fmt::format("test {}: {}", number, taken.status().ToString()));
    report_.tokens += *taken;
    const bool whole = *taken == static_cast<int64_t>(tokens.size());
    const bool accepted = whole && matcher.can_end();
    if (accepted == valid) return;
    ++(valid ? report_.valid_refused : report_.invalid_accepted);
    const std::string where = accepted ? "accepted"
                              : whole  ? "refused at its end"
                                       : fmt::format("refused at token {}", *taken);
    Fail(fmt::format("test {}: {} instance {}: {}", number, valid ? "valid" : "invalid", where,
                     text.substr(0, 200)));
  }

  const GrammarVocabulary& v_;
  const GrammarBenchOptions& options_;
  std::string file_;
  size_t masks_before_ = 0;  // those of earlier files
  GrammarBenchReport report_;
};

}  // namespace

Result<GrammarBenchReport> BenchGrammars(const GrammarVocabulary& vocabulary,
                                         const GrammarBenchOptions& options) {
  TW_ASSIGN(const std::vector<std::filesystem::path> files, FilesOf(options));
  Bench bench(vocabulary, options);
  Progress progress("schemas", static_cast<int64_t>(files.size()));
  for (const std::filesystem::path& file : files) {
    TW_TRY(bench.Take(file));
    progress.Advance(file.filename().string());
  }
  return bench.Finish();
}

}  // namespace thalweg::tools
