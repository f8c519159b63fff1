// One line of progress on stderr, rewritten in place; silent when stderr is not a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::tools {

class Progress {
 public:
  Progress(std::string what, int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the line

  void Advance(std::string_view note, int64_t steps = 1);

 private:
  std::string what_;
  int64_t total_;
  int64_t done_ = 0;
  bool visible_;
};

}  // namespace thalweg::tools
