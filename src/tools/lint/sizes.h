// Lengths of functions and files, and the list of exceptions that may only shrink.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lint/functions.h"
#include "tools/lint/source.h"

namespace thalweg::tools::lint {

inline constexpr int kMaxFunctionLines = 70;
inline constexpr int kMaxFileLines = 500;
inline constexpr int kMaxKernelFileLines = 800;  // in room kernels and in CUDA files
inline constexpr double kMaxMedianFunctionLines = 12;
// How many exceptions there may be. Lower it when the list gets shorter; never raise it.
inline constexpr size_t kExceptionBudget = 0;

// A line of exceptions.txt: "function <path>:<name> <lines>" or "file <path> <lines>", with the
// length it has today. Something longer than its line, or shorter, is a finding: the list may only
// shrink.
struct SizeException {
  std::string key;  // "file src/a.cc" or "function src/a.cc:Name"
  int lines = 0;
  int at_line = 0;  // in exceptions.txt
};

inline constexpr std::string_view kExceptionsPath = "src/tools/lint/exceptions.txt";

std::vector<SizeException> ParseExceptions(std::string_view text, Findings& findings);

// A host function and the file it stands in.
struct Measured {
  std::string path;
  std::string room;
  bool test = false;
  Function function;
};

// Functions of all C++ files; a file whose braces do not balance is a finding.
std::vector<Measured> MeasureFunctions(const std::vector<SourceFile>& files, Findings& findings);

// The median length of host functions outside tests; 0 when there are none.
double MedianHostLines(const std::vector<Measured>& functions);

// Findings for functions and files over their limits, for the median, and for exceptions that do
// not hold any more.
void CheckSizes(const std::vector<SourceFile>& files, const std::vector<Measured>& functions,
                const std::vector<SizeException>& exceptions, size_t budget, Findings& findings);

// A table for people: functions, median, 90th percentile, longest, for each room.
std::string SizeReport(const std::vector<Measured>& functions);

}  // namespace thalweg::tools::lint
