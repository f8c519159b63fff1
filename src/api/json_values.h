// Values of a JSON document, each checked for type and range. `what` names the value in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace thalweg::api {

using base::Json;

Result<bool> ReadBool(const Json& json, std::string_view what);
// A finite number.
Result<double> ReadReal(const Json& json, std::string_view what);
// A whole number in [least, most]; 3.0 counts as 3.
Result<int64_t> ReadInteger(const Json& json, std::string_view what, int64_t least, int64_t most);
// A whole number in [0, 2^64).
Result<uint64_t> ReadSeed(const Json& json, std::string_view what);
Result<std::string> ReadString(const Json& json, std::string_view what);
// An array of token ids that fit 32 bits; whether the vocabulary has them is the engine's question.
Result<std::vector<int32_t>> ReadTokens(const Json& json, std::string_view what);
// An array of strings, or one string alone.
Result<std::vector<std::string>> ReadStrings(const Json& json, std::string_view what);

// "what is <the value, cut short>, but must be <wanted>".
Status WrongValue(const Json& json, std::string_view what, std::string_view wanted);

}  // namespace thalweg::api
