// Kills `thalweg batch` at random moments, starts it again, and compares its results with those of
// a run that nobody disturbed.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "base/rng.h"
#include "tools/batch/line_reader.h"
#include "tools/batch/result_line.h"

namespace thalweg::tools::batch {

namespace fs = std::filesystem;

struct KillPlan {
  int lines = 0;
  int kills = 0;
  int signal = SIGKILL;
  int max_tokens = 0;
  uint64_t seed = 0;  // of the moments
};

class KillKit {
 public:
  explicit KillKit(const KillPlan& plan)
      : plan_(plan), folder_(fs::path(testing::TempDir()) / ("thalweg_kill_" + Number(getpid()))) {
    fs::create_directories(folder_);
    std::ofstream input(folder_ / "in");
    for (int i = 0; i < plan.lines; ++i) {
      input << R"({"custom_id": ")" << i << R"(", "body": {"prompt": "The number )" << i
            << R"( is", "max_tokens": )" << 1 + i % plan.max_tokens << "}}\n";
    }
  }
  ~KillKit() { fs::remove_all(folder_); }

  // Runs to the end; seconds that it took.
  double RunUndisturbed(const std::string& out) const {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Wait(Start(out)), 0);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // Starts it and ends it after a random share of `seconds`, so often; then lets it come to its
  // end.
  void RunWithKills(const std::string& out, double seconds) const {
    int interrupted = 0;
    for (int i = 0; i < plan_.kills; ++i) {
      const pid_t program = Start(out);
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds * Share(i)));
      kill(program, plan_.signal);
      interrupted += Wait(program) == 0 ? 0 : 1;
    }
    EXPECT_GT(interrupted, 0) << "every run had come to its end before it was killed";
    EXPECT_EQ(Wait(Start(out)), 0);
  }

  // Lines by number. Fails when one is there twice, or torn.
  std::map<int64_t, std::string> Results(const std::string& out) const {
    LineReader reader = LineReader::Open(folder_ / out, 1 << 20).value();
    std::map<int64_t, std::string> results;
    while (auto line = reader.Next().value()) {
      EXPECT_TRUE(line->ended);
      const auto key = ParseResultLine(line->text);
      EXPECT_TRUE(key.ok()) << line->text;
      EXPECT_TRUE(results.emplace(key->number, line->text).second) << line->text;
    }
    return results;
  }

 private:
  static std::string Number(int64_t value) { return std::to_string(value); }

  // Between 5 % and 60 % of the time that is left for a run.
  double Share(int i) const {
    const auto words =
        base::Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, base::PhiloxKeyOf(plan_.seed));
    return (0.05 + 0.55 * base::OpenUnit(words[0])) / plan_.kills * 2;
  }

  pid_t Start(const std::string& out) const {
    const std::string in = folder_ / "in";
    const std::string to = folder_ / out;
    const pid_t child = fork();
    if (child == 0) {
      if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(126);
      execl(THALWEG_PROGRAM, "thalweg", "batch", "--grace", "0", "--threads", "1", in.c_str(),
            to.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    return child;
  }

  static int Wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  KillPlan plan_;
  fs::path folder_;
};

// Exactly one result for each line, equal to that of an undisturbed run.
inline void ExpectKillsChangeNothing(const KillPlan& plan) {
  const KillKit kit(plan);
  const double seconds = kit.RunUndisturbed("whole");
  const auto expected = kit.Results("whole");
  ASSERT_EQ(expected.size(), static_cast<size_t>(plan.lines));
  kit.RunWithKills("killed", seconds);
  EXPECT_EQ(kit.Results("killed"), expected) << "seed of the moments: " << plan.seed;
}

}  // namespace thalweg::tools::batch
