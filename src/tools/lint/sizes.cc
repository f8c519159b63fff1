#include "tools/lint/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace thalweg::tools::lint {
namespace {

int CountLines(const SourceFile& file) { return static_cast<int>(SplitLines(file.text).size()); }

int FileLimit(const SourceFile& file) {
  const bool kernel = file.room() == "kernels" || file.path.ends_with(".cu");
  return kernel ? kMaxKernelFileLines : kMaxFileLines;
}

double Quantile(std::vector<int> lines, double q) {
  if (lines.empty()) return 0;
  std::sort(lines.begin(), lines.end());
  const double at = q * static_cast<double>(lines.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, lines.size() - 1);
  return lines[low] + (at - static_cast<double>(low)) * (lines[high] - lines[low]);
}

bool CountsForMedian(const Measured& m) { return !m.test && !m.function.device; }

// Holds each length that is over its limit against the exceptions, and remembers which were needed.
class Ratchet {
 public:
  Ratchet(const std::vector<SizeException>& exceptions, Findings& findings)
      : exceptions_(exceptions), findings_(findings) {}

  void Hold(const std::string& key, const Finding& finding, int lines) {
    const SizeException* exception = Find(key);
    if (exception == nullptr) {
      findings_.push_back(finding);
      return;
    }
    needed_.insert(key);
    if (lines == exception->lines) return;
    findings_.push_back(
        {std::string(kExceptionsPath), exception->at_line,
         fmt::format("{} has {} lines today: {}", key, lines,
                     lines < exception->lines ? "write that number here" : "it may not grow")});
  }

  void ReportUnneeded() {
    for (const SizeException& exception : exceptions_) {
      if (needed_.contains(exception.key)) continue;
      findings_.push_back({std::string(kExceptionsPath), exception.at_line,
                           fmt::format("{} needs no exception: take the line out", exception.key)});
    }
  }

 private:
  const SizeException* Find(const std::string& key) const {
    for (const SizeException& exception : exceptions_) {
      if (exception.key == key) return &exception;
    }
    return nullptr;
  }

  const std::vector<SizeException>& exceptions_;
  Findings& findings_;
  std::set<std::string> needed_;
};

void CheckFunctionLines(const Measured& m, Ratchet& ratchet) {
  if (m.function.device || m.function.lines() <= kMaxFunctionLines) return;
  ratchet.Hold("function " + m.path + ":" + m.function.name,
               {m.path, m.function.first_line,
                fmt::format("{} has {} lines, the limit is {}", m.function.name, m.function.lines(),
                            kMaxFunctionLines)},
               m.function.lines());
}

void CheckFileLines(const SourceFile& file, Ratchet& ratchet) {
  const int lines = CountLines(file);
  if (lines <= FileLimit(file)) return;
  ratchet.Hold("file " + file.path,
               {file.path, 0, fmt::format("{} lines, the limit is {}", lines, FileLimit(file))},
               lines);
}

void CheckMedian(const std::vector<Measured>& functions, Findings& findings) {
  const double median = MedianHostLines(functions);
  if (median <= kMaxMedianFunctionLines) return;
  findings.push_back({"src", 0,
                      fmt::format("the median host function has {} lines, the limit is {}", median,
                                  kMaxMedianFunctionLines)});
}

std::string ReportRow(const std::string& room, const std::vector<const Measured*>& functions) {
  std::vector<int> lines;
  const Measured* longest = nullptr;
  for (const Measured* m : functions) {
    lines.push_back(m->function.lines());
    if (longest == nullptr || m->function.lines() > longest->function.lines()) longest = m;
  }
  return fmt::format("{:<12} {:>9} {:>7.1f} {:>5.0f} {:>8}  {}\n", room, lines.size(),
                     Quantile(lines, 0.5), Quantile(lines, 0.9), longest->function.lines(),
                     longest->function.name);
}

}  // namespace

std::vector<SizeException> ParseExceptions(std::string_view text, Findings& findings) {
  std::vector<SizeException> exceptions;
  int number = 0;
  for (std::string_view line : SplitLines(text)) {
    ++number;
    std::istringstream in{std::string(line.substr(0, line.find('#')))};
    std::string kind;
    std::string what;
    int lines = 0;
    if (!(in >> kind)) continue;
    if (!(in >> what >> lines) || (kind != "file" && kind != "function")) {
      findings.push_back(
          {std::string(kExceptionsPath), number,
           "a line reads \"file <path> <lines>\" or \"function <path>:<name> <lines>\""});
      continue;
    }
    exceptions.push_back({kind + " " + what, lines, number});
  }
  return exceptions;
}

std::vector<Measured> MeasureFunctions(const std::vector<SourceFile>& files, Findings& findings) {
  std::vector<Measured> measured;
  for (const SourceFile& file : files) {
    if (!file.is_cpp()) continue;
    auto functions = FindFunctions(file.code);
    if (!functions.has_value()) {
      findings.push_back({file.path, 0, "the braces do not balance: its functions go unmeasured"});
      continue;
    }
    for (Function& function : *functions) {
      measured.push_back({file.path, file.room(), file.is_test(), std::move(function)});
    }
  }
  return measured;
}

double MedianHostLines(const std::vector<Measured>& functions) {
  std::vector<int> lines;
  for (const Measured& m : functions) {
    if (CountsForMedian(m)) lines.push_back(m.function.lines());
  }
  return Quantile(std::move(lines), 0.5);
}

void CheckSizes(const std::vector<SourceFile>& files, const std::vector<Measured>& functions,
                const std::vector<SizeException>& exceptions, size_t budget, Findings& findings) {
  Ratchet ratchet(exceptions, findings);
  for (const Measured& m : functions) CheckFunctionLines(m, ratchet);
  for (const SourceFile& file : files) {
    if (file.is_cpp()) CheckFileLines(file, ratchet);
  }
  ratchet.ReportUnneeded();
  if (exceptions.size() > budget) {
    findings.push_back({std::string(kExceptionsPath), 0,
                        fmt::format("{} exceptions, there may be {}", exceptions.size(), budget)});
  }
  CheckMedian(functions, findings);
}

std::string SizeReport(const std::vector<Measured>& functions) {
  std::map<std::string, std::vector<const Measured*>> rooms;
  for (const Measured& m : functions) {
    if (m.function.device) continue;
    rooms[m.test ? "(tests)" : m.room].push_back(&m);
    if (!m.test) rooms["(all)"].push_back(&m);
  }
  std::string report = fmt::format("{:<12} {:>9} {:>7} {:>5} {:>8}\n", "room", "functions",
                                   "median", "p90", "longest");
  for (const auto& [room, rows] : rooms) report += ReportRow(room, rows);
  return report;
}

}  // namespace thalweg::tools::lint
