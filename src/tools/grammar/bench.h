// thalweg grammar bench: what a corpus of JSON Schemas costs, and whether
// verdicts are right.
//
// A file is of the MaskBench form: {"schema": ..., "tests": [{"valid": bool,
// "data": ...}]}. Each schema is compiled, each instance written as json.dumps
// writes it (keys in their order, text unescaped) and taken token by token
// under the mask of every step. A schema has passed when it compiles, all of
// its valid instances are accepted and all others refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/schema.h"
#include "tools/grammar/vocabulary.h"

namespace thalweg::tools {

struct GrammarBenchOptions {
  std::filesystem::path folder = {};
  int64_t limit = 0;  // files, in the order of their names; 0: all
  grammar::SchemaOptions schema = {};
};

inline constexpr size_t kShownSlow = 10;

struct GrammarBenchReport {
  struct Failure {
    std::string file = {};
    std::string why = {};
  };
  int64_t schemas = 0, passed = 0, compile_errors = 0;
  int64_t valid = 0, invalid = 0;                   // instances that were taken
  int64_t valid_refused = 0, invalid_accepted = 0;  // of these
  int64_t tokens = 0;                               // of all instances, as far as they were taken
  std::vector<double> mask_us = {};        // of a mask, with the acceptance of the token before it
  std::vector<double> compile_us = {};     // schema to grammar
  std::vector<double> first_mask_us = {};  // the same, to the first mask
  std::map<std::string, int64_t> errors_by_keyword = {};
  struct Slow {
    std::string file = {};
    double mask_us = 0, compile_us = 0;  // the slowest mask of the file, its compilation
  };
  std::vector<Slow> slowest = {};  // files by their slowest mask, at most kShownSlow
  int64_t largest_grammar_bytes = 0;
  int64_t peak_bytes = 0;  // of the process
  std::vector<Failure> failures = {};
};

// Errors: a folder without such files, a file that cannot be read or is not of
// this form.
Result<GrammarBenchReport> BenchGrammars(const GrammarVocabulary& vocabulary,
                                         const GrammarBenchOptions& options);

base::Json ToJson(const GrammarBenchReport& report);
std::string Describe(const GrammarBenchReport& report);

}  // namespace thalweg::tools
