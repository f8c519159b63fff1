// The program under mpirun with 4 and 8 processes writes what one process writes, byte for byte:
// nano and both tiny checkpoints, greedy and at a temperature with seeds, requests over ranks
// beside experts over ranks, copies of experts, prompts over groups of ranks of equal and unequal
// sizes, drafts, experts that move in the middle, and ranks that stand still at random moments.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <regex>
#include <stop_token>
#include <thread>

#include "base/rng.h"
#include "tests/ranks/job.h"
#include "tests/ranks/program_kit.h"

namespace thalweg::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kLong{120};
constexpr int kLines = 16;

// Prompts short and long, some with a beginning in common.
std::string Lines() {
  std::string text;
  for (int i = 0; i < kLines; ++i) {
    std::string prompt = i % 3 == 0 ? "Once there was a mill beside the river. " : "";
    for (int k = 0; k <= i * 5 % 17; ++k) prompt += fmt::format("The miller had {} sons. ", i + k);
    text += fmt::format(R"({{"id":"{}","prompt":"{}","max_tokens":{},"temperature":{},"seed":{},)"
                        R"("logprobs":2,"ignore_eos":true}})"
                        "\n",
                        i, prompt, 4 + 3 * (i % 5), i % 2 == 0 ? "0" : "0.9", 40 + i);
  }
  return text;
}

struct World {
  int ranks = 4;
  std::vector<std::string> options = {};
  bool delays = false;
  bool moves = false;  // experts do, before the end
};

// Stops one rank after another for up to 60 ms, far less than what makes it a lost one.
void Delay(const std::stop_token& stop, const std::string& word, uint32_t seed) {
  for (uint32_t i = 0; !stop.stop_requested(); ++i) {
    const std::vector<pid_t> pids = PidsWith(word);
    const auto draw = base::Philox4x32({i, 0, 0, 0}, {seed, 3});
    const pid_t victim = pids.empty() ? 0 : pids[draw[0] % pids.size()];
    if (victim > 0) kill(victim, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(draw[1] % 60));
    if (victim > 0) kill(victim, SIGCONT);
    std::this_thread::sleep_for(milliseconds(draw[2] % 60));
  }
}

JobResult RunWorld(const World& world, std::vector<std::string> words, const std::string& out) {
  words.insert(words.end(), world.options.begin(), world.options.end());
  words.insert(words.end(), {"--log-level", "info"});
  Job job(world.ranks, words);
  std::jthread delays;
  if (world.delays)
    delays = std::jthread(
        [&](const std::stop_token& stop) { Delay(stop, out, static_cast<uint32_t>(world.ranks)); });
  return job.Wait(kLong);
}

// Without the name of the run, which says whether drafts were made.
std::multiset<std::string> AnswersOf(const std::string& path) {
  static const std::regex run(R"("run":"[0-9a-f]*",)");
  std::multiset<std::string> answers;
  for (const std::string& line : LinesOf(path)) answers.insert(std::regex_replace(line, run, ""));
  return answers;
}

void ExpectWhatOneWrites(const std::string& model, const std::vector<World>& worlds) {
  const std::string in = NewFile("in", Lines()), alone = NewFile("alone", "");
  EXPECT_EQ(Job(1, BatchCommand(in, alone, model)).Wait(kLong).code, 0);
  ASSERT_EQ(LinesOf(alone).size(), static_cast<size_t>(kLines));
  for (const World& world : worlds) {
    SCOPED_TRACE(fmt::format("{} processes {}", world.ranks, fmt::join(world.options, " ")));
    const std::string out = NewFile("worlds", "");
    const JobResult result = RunWorld(world, BatchCommand(in, out, model), out);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(AnswersOf(out), AnswersOf(alone));
    if (world.moves) {
      EXPECT_NE(result.output.find(" lie anew from step "), std::string::npos) << result.output;
    }
  }
}

TEST(Worlds, Nano) {
  ExpectWhatOneWrites(
      NanoFolder(),
      {{.ranks = 4, .options = {"--rebalance-window", "60"}, .delays = true, .moves = true},
       {.ranks = 4, .options = {"--context-ranks", "2", "--nextn", "5"}},
       {.ranks = 8, .options = {"--expert-spare", "1", "--context-ranks", "3", "--nextn", "5"}},
       {.ranks = 8}});
}

TEST(Worlds, TinyA) {
  ExpectWhatOneWrites(TinyFolder("tiny-a"), {{.ranks = 4, .options = {"--context-ranks", "4"}},
                                             {.ranks = 8, .options = {"--nextn", "4"}}});
}

TEST(Worlds, TinyB) {
  ExpectWhatOneWrites(
      TinyFolder("tiny-b"),
      {{.ranks = 4, .options = {"--expert-spare", "2", "--nextn", "4"}},
       {.ranks = 8,
        .options = {"--context-ranks", "8", "--expert-spare", "1", "--rebalance-window", "60"},
        .delays = true}});
}

}  // namespace
}  // namespace thalweg::tests
