// thalweg_lint [--report] <root>: holds the repository to its own rules. Prints one line for each
// finding, "file:line: message", and ends with 1 when there is one.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tools/lint/hygiene.h"
#include "tools/lint/layers.h"
#include "tools/lint/sizes.h"
#include "tools/lint/symbols.h"

namespace thalweg::tools::lint {
namespace {

std::vector<SizeException> ExceptionsOf(const std::vector<SourceFile>& files, Findings& findings) {
  for (const SourceFile& file : files) {
    if (file.path == kExceptionsPath) return ParseExceptions(file.text, findings);
  }
  return {};
}

void PrintFindings(const Findings& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{}:{}: {}\n", finding.path, finding.line, finding.message);
  }
}

Result<bool> Lint(const std::string& root, bool report) {
  TW_ASSIGN(const std::vector<SourceFile> files, ReadTree(root));
  Findings findings;
  CheckLayers(files, findings);
  for (const SourceFile& file : files) {
    CheckForm(file, findings);
    CheckTraces(file, findings);
    if (file.is_cpp()) CheckSymbols(file, findings);
  }
  const std::vector<Measured> functions = MeasureFunctions(files, findings);
  CheckSizes(files, functions, ExceptionsOf(files, findings), kExceptionBudget, findings);
  PrintFindings(findings);
  if (report) fmt::print("{}", SizeReport(functions));
  fmt::print("{} files, {} functions, median host function {} lines, {} findings\n", files.size(),
             functions.size(), MedianHostLines(functions), findings.size());
  return findings.empty();
}

int Main(std::vector<std::string> arguments) {
  const bool report = std::erase(arguments, "--report") > 0;
  if (arguments.size() != 1) {
    fmt::print(stderr, "usage: thalweg_lint [--report] <root of the repository>\n");
    return 2;
  }
  const Result<bool> clean = Lint(arguments[0], report);
  if (!clean.ok()) {
    fmt::print(stderr, "{}\n", clean.status().ToString());
    return 2;
  }
  return *clean ? 0 : 1;
}

}  // namespace
}  // namespace thalweg::tools::lint

int main(int argc, char** argv) {
  return thalweg::tools::lint::Main(std::vector<std::string>(argv + 1, argv + argc));
}
