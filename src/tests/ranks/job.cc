#include "tests/ranks/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/check.h"
#include "base/mapped_file.h"

namespace thalweg::tests {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTick{10};

std::filesystem::path NewFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "thalweg-ranks-XXXXXX").string();
  TW_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

// Calls `done` until it is true or the limit is over.
template <typename Done>
bool Until(std::chrono::seconds limit, const Done& done) {
  const auto end = Clock::now() + limit;
  while (!done()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(kTick);
  }
  return true;
}

[[noreturn]] void Become(const std::vector<std::string>& words, const std::string& output) {
  setpgid(0, 0);
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  _exit(127);
}

}  // namespace

Job::Job(int ranks, const std::vector<std::string>& arguments,
         const std::vector<std::string>& mpirun_flags)
    : ranks_(ranks), folder_(NewFolder()) {
  std::vector<std::string> words = {
      "mpirun", "--oversubscribe",       "--allow-run-as-root", "--bind-to", "none",
      "-n",     fmt::format("{}", ranks)};
  words.insert(words.end(), mpirun_flags.begin(), mpirun_flags.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (std::string& word : words)
    if (word == "FOLDER") word = folder_.string();
  const std::string output = folder_ / "output";
  mpirun_ = fork();
  TW_CHECK(mpirun_ >= 0);
  if (mpirun_ == 0) Become(words, output);
}

Job::~Job() {
  if (mpirun_ > 0) {
    kill(-mpirun_, SIGKILL);
    waitpid(mpirun_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<pid_t> Job::Pids(std::chrono::seconds limit) const {
  std::vector<pid_t> pids;
  const bool all = Until(limit, [&] {
    pids.clear();
    for (int r = 0; r < ranks_; ++r) {
      const auto text = base::ReadFile(folder_ / fmt::format("pid.{}", r), 100);
      if (text.ok()) pids.push_back(static_cast<pid_t>(std::strtol(text->c_str(), nullptr, 10)));
    }
    return pids.size() == static_cast<size_t>(ranks_);
  });
  return all ? pids : std::vector<pid_t>();
}

JobResult Job::Wait(std::chrono::seconds limit) {
  JobResult result;
  int status = 0;
  result.ended = Until(limit, [&] { return waitpid(mpirun_, &status, WNOHANG) == mpirun_; });
  if (result.ended) {
    mpirun_ = -1;
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const auto text = base::ReadFile(folder_ / "output", 1 << 20);
  if (text.ok()) result.output = *text;
  return result;
}

bool AllGone(const std::vector<pid_t>& pids, std::chrono::seconds limit) {
  return Until(limit, [&] {
    return std::none_of(pids.begin(), pids.end(), [](pid_t pid) { return kill(pid, 0) == 0; });
  });
}

}  // namespace thalweg::tests
