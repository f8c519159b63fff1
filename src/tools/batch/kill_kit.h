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

  void RunToTheEnd(const std::string& out) const { EXPECT_EQ(Wait(Start(out)), 0); }

  // Starts it and ends it when it has written a random share of the `bytes` of an undisturbed run,
  // so often; then lets it come to its end.
  void RunWithKills(const std::string& out, uint64_t bytes) const {
    for (int i = 0; i < plan_.kills; ++i) {
      const uint64_t before = Size(out);
      const pid_t program = Start(out);
      WaitForSize(out, before + static_cast<uint64_t>(Share(i) * static_cast<double>(bytes)));
      kill(program, plan_.signal);
      EXPECT_NE(Wait(program), 0) << "it had come to its end before it was killed";
    }
    EXPECT_LT(Size(out), bytes);
    RunToTheEnd(out);
  }

  uint64_t Size(const std::string& out) const {
    std::error_code error;
    const uint64_t size = fs::file_size(folder_ / out, error);
    return error ? 0 : size;
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

  // All of them together come to less than the whole.
  double Share(int i) const {
    const auto words =
        base::Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, base::PhiloxKeyOf(plan_.seed));
    return base::OpenUnit(words[0]) * 0.8 / plan_.kills;
  }

  void WaitForSize(const std::string& out, uint64_t bytes) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (Size(out) <= bytes) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "it writes nothing";
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
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
  kit.RunToTheEnd("whole");
  const auto expected = kit.Results("whole");
  ASSERT_EQ(expected.size(), static_cast<size_t>(plan.lines));
  kit.RunWithKills("killed", kit.Size("whole"));
  EXPECT_EQ(kit.Results("killed"), expected) << "seed of the moments: " << plan.seed;
}

}  // namespace thalweg::tools::batch
