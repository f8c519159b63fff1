#include "comm/pulse.h"

#include <algorithm>

#include "base/check.h"

namespace thalweg::comm {

std::string_view NameOf(Operation operation) {
  constexpr std::array<std::string_view, 8> kNames = {
      "nothing", "broadcast", "all-gather", "all-to-all", "sum", "message", "barrier", "exchange"};
  TW_CHECK_LT(static_cast<size_t>(operation), kNames.size());
  return kNames[static_cast<size_t>(operation)];
}

void Pulse::Write(std::string_view message) {
  text = {};
  std::copy_n(message.begin(), std::min(message.size(), text.size() - 1), text.begin());
}

std::string_view Pulse::Text() const {
  const auto end = std::find(text.begin(), text.end(), '\0');
  return {text.data(), static_cast<size_t>(end - text.begin())};
}

}  // namespace thalweg::comm
