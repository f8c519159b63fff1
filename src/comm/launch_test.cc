// A process knows from its environment whether a launcher started it as one of several: one task of
// srun or mpirun is a process that runs alone, with MPI in the build or without.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "comm/mpi/session.h"

namespace thalweg::comm {
namespace {

bool LaunchedWith(const std::map<std::string, std::string>& variables) {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  return LaunchedByMpi();
}

TEST(Launch, SeveralProcesses) {
  EXPECT_TRUE(LaunchedWith({{"OMPI_COMM_WORLD_SIZE", "2"}}));
  EXPECT_TRUE(LaunchedWith({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}));
  EXPECT_TRUE(LaunchedWith({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}));
  EXPECT_TRUE(LaunchedWith({{"PMIX_RANK", "0"}}));
}

TEST(Launch, OneProcessRunsAlone) {
  EXPECT_FALSE(LaunchedWith({}));
  EXPECT_FALSE(LaunchedWith({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}));
  EXPECT_FALSE(LaunchedWith({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_FALSE(LaunchedWith({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  // A step of a batch job whose tasks do not speak to one another.
  EXPECT_FALSE(LaunchedWith({{"SLURM_STEP_NUM_TASKS", "4"}}));
}

}  // namespace
}  // namespace thalweg::comm
