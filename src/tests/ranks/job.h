// A program under mpirun, watched from outside: for tests.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace thalweg::tests {

struct JobResult {
  int code = -1;  // of mpirun; 128 + signal when it was killed; -1: it was still there
  std::string output;
  bool ended = false;  // by itself, within the limit
};

// mpirun with the flags that a machine with fewer cores than ranks needs, and root.
class Job {
 public:
  Job(int ranks, const std::vector<std::string>& arguments,
      const std::vector<std::string>& mpirun_flags = {});
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();  // kills what is left

  const std::filesystem::path& folder() const { return folder_; }
  // Process ids that the ranks left as folder/pid.R; empty when they have not all come in time.
  std::vector<pid_t> Pids(std::chrono::seconds limit) const;
  JobResult Wait(std::chrono::seconds limit);

 private:
  int ranks_;
  std::filesystem::path folder_;
  pid_t mpirun_ = -1;
};

// Whether no process of these is left; waits up to `limit`.
bool AllGone(const std::vector<pid_t>& pids, std::chrono::seconds limit);

}  // namespace thalweg::tests
