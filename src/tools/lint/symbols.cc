#include "tools/lint/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace thalweg::tools::lint {
namespace {

bool Nowhere(const SourceFile&) { return false; }

bool InEnvironmentFile(const SourceFile& file) { return file.path == "src/base/env.cc"; }

bool InThreadTeam(const SourceFile& file) {
  return file.path == "src/base/thread_team.h" || file.path == "src/base/thread_team.cc";
}

// Rooms that own threads, and the team itself; everything below is handed a ThreadTeam.
bool MayStartThreads(const SourceFile& file) {
  constexpr std::array<std::string_view, 6> kRooms = {"engine", "cluster", "api",
                                                      "server", "tools",   "tests"};
  const std::string room = file.room();
  return file.is_test() || InThreadTeam(file) ||
         std::find(kRooms.begin(), kRooms.end(), room) != kRooms.end();
}

// Programs are the tools, and what other rooms build beside their library: a file with a main.
bool InPrograms(const SourceFile& file) {
  return file.room() == "tools" || file.code.find("int main(") != std::string::npos;
}

bool OutsideHeaders(const SourceFile& file) { return !file.is_header(); }

struct Ban {
  std::string_view symbol;  // a trailing '(' asks for a call
  bool (*allowed)(const SourceFile&);
  std::string_view advice;
};

constexpr std::string_view kEnvironment = "environment variables are read in base/env.cc alone";
constexpr std::string_view kThreads = "nothing below engine starts a thread: take a ThreadTeam";
constexpr std::string_view kRandom = "random numbers come from Philox4x32 of base/rng.h";
constexpr std::string_view kUnbounded = "unbounded string function: use std::string or fmt::format";
constexpr std::string_view kParse = "no error report: use std::from_chars";
constexpr std::string_view kOutput = "only programs write to standard output";

constexpr Ban kBans[] = {
    {"getenv", InEnvironmentFile, kEnvironment},
    {"secure_getenv", InEnvironmentFile, kEnvironment},
    {"std::thread", MayStartThreads, kThreads},
    {"std::jthread", MayStartThreads, kThreads},
    {"std::async", MayStartThreads, kThreads},
    {"pthread_create", MayStartThreads, kThreads},
    {"#pragma omp", Nowhere, kThreads},
    {"rand(", Nowhere, kRandom},
    {"srand(", Nowhere, kRandom},
    {"drand48(", Nowhere, kRandom},
    {"random_device", Nowhere, kRandom},
    {"strcpy(", Nowhere, kUnbounded},
    {"strcat(", Nowhere, kUnbounded},
    {"sprintf(", Nowhere, kUnbounded},
    {"vsprintf(", Nowhere, kUnbounded},
    {"gets(", Nowhere, kUnbounded},
    {"strtok(", Nowhere, "hidden state: use std::string_view"},
    {"atoi(", Nowhere, kParse},
    {"atol(", Nowhere, kParse},
    {"atoll(", Nowhere, kParse},
    {"atof(", Nowhere, kParse},
    {"std::cout", InPrograms, kOutput},
    {"printf(", InPrograms, kOutput},
    {"puts(", InPrograms, kOutput},
    {"putchar(", InPrograms, kOutput},
    {"#include <iostream>", InPrograms, "<iostream> is for programs"},
    {"using namespace", OutsideHeaders, "a header must not choose names for its includers"},
};

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Whether the symbol may start at `at`: not inside a longer word and, unless it names its scope
// itself, not as a member of something.
bool StartsWell(std::string_view line, size_t at) {
  if (at == 0 || !IsWordChar(line[at])) return true;
  const char before = line[at - 1];
  const bool arrow = before == '>' && at >= 2 && line[at - 2] == '-';
  return !IsWordChar(before) && before != '.' && !arrow;
}

bool EndsWell(std::string_view line, size_t end, bool call) {
  if (!call) return end >= line.size() || !IsWordChar(line[end]);
  const size_t next = line.find_first_not_of(' ', end);
  return next != std::string_view::npos && line[next] == '(';
}

bool ContainsSymbol(std::string_view line, std::string_view symbol) {
  const bool call = symbol.ends_with('(');
  const std::string_view word = symbol.substr(0, symbol.size() - (call ? 1 : 0));
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    if (StartsWell(line, at) && EndsWell(line, at + word.size(), call)) return true;
  }
  return false;
}

}  // namespace

void CheckSymbols(const SourceFile& file, Findings& findings) {
  int number = 0;
  for (std::string_view line : SplitLines(file.code)) {
    ++number;
    for (const Ban& ban : kBans) {
      if (!ContainsSymbol(line, ban.symbol) || ban.allowed(file)) continue;
      findings.push_back({file.path, number, fmt::format("{}: {}", ban.symbol, ban.advice)});
    }
  }
}

}  // namespace thalweg::tools::lint
