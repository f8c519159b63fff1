#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace thalweg::base {

Status SetUpLog(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    return InvalidArgument(
        fmt::format("unknown log level \"{}\": one of debug, info, warn, error, off", level));
  }
  auto logger = std::make_shared<spdlog::logger>(
      "thalweg", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%^%l%$ %v");
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace thalweg::base
