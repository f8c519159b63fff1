// The progress line of a download.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "hub/hub.h"
#include "hub/size_text.h"

namespace thalweg::hub {
namespace {

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

// The mean rate of this run: steadier than the last second's, and what is left is many seconds.
std::string RateAndRest(const PullProgress& progress) {
  if (progress.seconds < 1 || progress.bytes_received == 0) return "";
  const double rate = static_cast<double>(progress.bytes_received) / progress.seconds;
  const auto left = static_cast<double>(progress.bytes - progress.bytes_done);
  return fmt::format(", {:.1f} MB/s, {} left", rate / 1e6, Duration(left / rate));
}

}  // namespace

std::string SizeText(uint64_t bytes) {
  const auto in = [&](uint64_t unit) {
    return static_cast<double>(bytes) / static_cast<double>(unit);
  };
  if (bytes >= 1u << 30) return fmt::format("{:.1f} GiB", in(1u << 30));
  if (bytes >= 1u << 20) return fmt::format("{:.1f} MiB", in(1u << 20));
  if (bytes >= 1u << 10) return fmt::format("{:.1f} KiB", in(1u << 10));
  return fmt::format("{} bytes", bytes);
}

std::string ProgressLine(const PullProgress& progress) {
  const double percent = progress.bytes == 0 ? 100.0
                                             : 100.0 * static_cast<double>(progress.bytes_done) /
                                                   static_cast<double>(progress.bytes);
  return fmt::format("{} {:3.0f}% of {}, {} of {} files{}", progress.model, percent,
                     SizeText(progress.bytes), progress.files_done, progress.files,
                     RateAndRest(progress));
}

std::function<void(const PullProgress&)> TerminalProgress() {
  if (isatty(STDERR_FILENO) != 1) return {};
  return [](const PullProgress& progress) {
    fmt::print(stderr, "\r\033[K{}", ProgressLine(progress));
    if (progress.files_done == progress.files) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

}  // namespace thalweg::hub
