// Decode steps of an engine's ranks without the engine's threads: one thread plans a step, executes
// it, and plans the next one. So two runs of one load have the same steps, and what a step costs is
// the least over some runs: other work on the machine only adds to a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "parallel/statistics.h"

namespace thalweg::tools::bench {

struct StepsLoad {
  int64_t sequences = 8;  // over all ranks
  int64_t prompt = 64;    // tokens of each
  int64_t tokens = 64;    // decode steps
};

struct TimedStep {
  double us = 0;         // inside the executor
  double worked_us = 0;  // of it before the step: counting, placing and moving experts
  double busy_us = 0;    // processor time of the thread that executes; with one rank of one thread
                         // all that the step takes, which no other work on the machine changes
  bool operator==(const TimedStep&) const = default;
};

struct RankSteps {
  std::vector<TimedStep> steps = {};              // in which every sequence decodes
  std::vector<std::vector<int32_t>> tokens = {};  // by sequence
  engine::ExpertMetrics experts = {};             // with several ranks
};

// Tokens that a sequence has room for beside those that are counted: prompts are read one after the
// other, and who began first must not end before the last step counts. Steps would have fewer rows
// at the end otherwise, and how many fewer depends on the number of ranks.
int64_t SlackTokens(const StepsLoad& load);
// Rows of a step in which prompts are read.
int64_t PromptRows(const StepsLoad& load);

// Sizes (sequences, rows, cache) are set for the load; the rest is as the options say. Errors: what
// Engine::Load refuses; a step that fails.
Result<RankSteps> RunRankSteps(engine::EngineOptions options, const StepsLoad& load);

// A name for a file of counts that the machine has none of; removed at the end.
class CountsFile {
 public:
  CountsFile();
  CountsFile(const CountsFile&) = delete;
  CountsFile& operator=(const CountsFile&) = delete;
  ~CountsFile();
  const std::string& path() const { return path_; }
  // What an engine has written there.
  Result<parallel::ExpertCounts> Read() const { return parallel::ReadCounts(path_); }

 private:
  std::string path_;
};

// Of each step the least over the runs, which have equally many: of its time (with what was done
// before it in that run), and of its processor time.
std::vector<TimedStep> LeastOfRuns(const std::vector<RankSteps>& runs);
// Of the steps' time, us.
double MedianUs(const std::vector<TimedStep>& steps);

// Token ids that share nothing.
std::vector<int32_t> MadeUpPrompt(int64_t tokens, int64_t number, int64_t vocab);

}  // namespace thalweg::tools::bench
