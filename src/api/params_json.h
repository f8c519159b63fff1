// SamplingParams from JSON: the one parser behind C++, C, Python and the batch files.
#pragma once

#include <thalweg/sampling_params.h>

#include <string_view>

#include "api/json_values.h"
#include "base/json.h"

namespace thalweg::api {

// Whether `name` is a field of SamplingParams in JSON.
bool IsParamName(std::string_view name);
// An ok status for names that SamplingParamsFromJson takes; else the error that it would give.
Status CheckParamName(std::string_view name);
// Sets one field. `name` must be one (CheckParamName).
Status SetParam(std::string_view name, const Json& value, SamplingParams* params);
// A JSON object over the values of `params`. After an error `params` may be changed in part.
Status SetParams(const Json& object, SamplingParams* params);

}  // namespace thalweg::api
