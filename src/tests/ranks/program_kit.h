// What tests of the program under mpirun share: input files of `thalweg batch`, and the processes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace thalweg::tests {

// The model that comes with the repository; one of the tiny ones of its tests.
std::string NanoFolder();
std::string TinyFolder(const std::string& name);

// `count` lines for thalweg batch, greedy and sampled, with prompts of different lengths.
std::string BatchLines(int count, int max_tokens);

// A file of this process in the folder for tests; empty: just a name.
std::string NewFile(const std::string& name, const std::string& text);

// The command line: one thread, small caches.
std::vector<std::string> BatchCommand(const std::string& in, const std::string& out,
                                      const std::string& model = NanoFolder());

std::multiset<std::string> LinesOf(const std::string& path);

// Processes of the program whose command line has the word, by rank; without mpirun itself.
std::vector<pid_t> PidsWith(const std::string& word);

// Whether `what` becomes true within a minute.
bool WaitFor(const std::function<bool()>& what);

}  // namespace thalweg::tests
