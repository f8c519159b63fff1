#include "tests/ranks/program_kit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/mapped_file.h"

namespace thalweg::tests {

std::string NanoFolder() { return std::string(THALWEG_SOURCE_DIR) + "/models/nano"; }

std::string TinyFolder(const std::string& name) {
  return std::string(THALWEG_SOURCE_DIR) + "/tests/data/" + name + "/model";
}

std::string BatchLines(int count, int max_tokens) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    std::string prompt;
    for (int k = 0; k <= i % 7; ++k) prompt += "One upon a time there was a river. ";
    text += fmt::format(R"({{"id":"{}","prompt":"{}","max_tokens":{},"temperature":{},)"
                        R"("logprobs":2,"ignore_eos":true}})"
                        "\n",
                        i, prompt, max_tokens, i % 2 == 0 ? "0" : "0.8");
  }
  return text;
}

std::string NewFile(const std::string& name, const std::string& text) {
  const std::string path =
      fmt::format("{}/thalweg-program-{}-{}", testing::TempDir(), getpid(), name);
  std::remove(path.c_str());
  if (!text.empty()) {
    EXPECT_TRUE(base::WriteFile(path, text).ok());
  }
  return path;
}

std::vector<std::string> BatchCommand(const std::string& in, const std::string& out,
                                      const std::string& model) {
  return {THALWEG_PROGRAM,
          "batch",
          in,
          out,
          "--model",
          model,
          "--threads",
          "1",
          "--cache-tokens",
          "8192",
          "--max-sequences",
          "8"};
}

static std::string ContentOf(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::stringstream content;
  content << stream.rdbuf();
  return content.str();
}

std::multiset<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

// As mpirun has numbered it; numbers of processes begin anew at some time, and say nothing.
static int RankOf(pid_t pid) {
  const std::string all = ContentOf(fmt::format("/proc/{}/environ", pid));
  const std::string name = "OMPI_COMM_WORLD_RANK=";
  const size_t at = all.find(name);
  int rank = 0;
  if (at != std::string::npos)
    std::from_chars(all.data() + at + name.size(), all.data() + all.size(), rank);
  return rank;
}

std::vector<pid_t> PidsWith(const std::string& word) {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string line = ContentOf(entry.path() / "cmdline");
    if (line.starts_with(THALWEG_PROGRAM) && line.find(word) != std::string::npos)
      pids.push_back(static_cast<pid_t>(std::stol(name)));
  }
  std::sort(pids.begin(), pids.end(), [](pid_t a, pid_t b) { return RankOf(a) < RankOf(b); });
  return pids;
}

bool WaitFor(const std::function<bool()>& what) {
  for (int i = 0; i < 600 && !what(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return what();
}

}  // namespace thalweg::tests
