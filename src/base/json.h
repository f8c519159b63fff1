// JSON with key order kept (the order is part of the chat protocol), parsed strictly.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/status.h"

namespace thalweg::base {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  int max_depth = 64;
  size_t max_elements = 4'000'000;  // values and keys together
};

// Parses UTF-8 JSON. Malformed text, invalid UTF-8, duplicate keys and exceeded limits are errors
// that name the byte offset. `what` names the document in messages.
Result<Json> ParseJson(std::string_view text, std::string_view what, JsonLimits limits = {});

}  // namespace thalweg::base
