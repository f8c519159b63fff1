#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace thalweg::tools {

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)),
      total_(std::max<int64_t>(total, 1)),
      visible_(isatty(STDERR_FILENO) == 1) {
  Advance("", 0);
}

Progress::~Progress() {
  if (visible_) fmt::print(stderr, "\r\033[K");
}

void Progress::Advance(std::string_view note, int64_t steps) {
  done_ += steps;
  if (!visible_) return;
  fmt::print(stderr, "\r\033[K{} {:3}% {}", what_, 100 * done_ / total_, note);
  std::fflush(stderr);
}

}  // namespace thalweg::tools
