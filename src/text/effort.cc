#include "text/effort.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "text/utf8.h"

namespace thalweg::text {
namespace {

struct EffortName {
  std::string_view name;
  EffortChoice choice;
};

// The names of the release, and those that other APIs have for the same steps.
constexpr EffortName kEffortNames[] = {
    {"none", {.thinking = false}},        {"minimal", {.effort = kLowEffort}},
    {"low", {.effort = kLowEffort}},      {"medium", {.effort = kDefaultEffort}},
    {"high", {.effort = kDefaultEffort}}, {"xhigh", {.effort = kDefaultEffort}},
    {"max", {.effort = kMaxEffort}},
};

Status NoEffort(std::string_view given) {
  return base::InvalidArgument(
      fmt::format("effort is {}; it must be none, minimal, low (50), medium, high (75), xhigh, max "
                  "(100) or a whole number {}..{}",
                  given, kMinEffort, kMaxEffort));
}

std::optional<int> WholeNumber(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Status CheckEffort(int effort) {
  if (effort >= kMinEffort && effort <= kMaxEffort) return {};
  return NoEffort(std::to_string(effort));
}

Result<EffortChoice> ParseEffortName(std::string_view name) {
  for (const EffortName& one : kEffortNames) {
    if (one.name == name) return one.choice;
  }
  return NoEffort(fmt::format("\"{}\"", Excerpt(name)));
}

Result<EffortChoice> ParseEffortChoice(std::string_view text) {
  const std::optional<int> number = WholeNumber(text);
  if (!number) return ParseEffortName(text);
  TW_TRY(CheckEffort(*number));
  return EffortChoice{.thinking = true, .effort = *number};
}

Result<int> ParseEffort(std::string_view text) {
  TW_ASSIGN(const EffortChoice choice, ParseEffortChoice(text));
  if (choice.thinking) return choice.effort;
  return base::InvalidArgument("effort none: turn thinking off instead");
}

}  // namespace thalweg::text
