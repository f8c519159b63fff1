// Command lines as a shell runs them, for tests of the program.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace thalweg::tools {

struct Outcome {
  int code = -1;     // exit code
  std::string text;  // standard output, and what the command line redirects into it
};

inline Outcome RunShell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.text.append(buffer.data(), n);
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

}  // namespace thalweg::tools
