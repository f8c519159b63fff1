// JSON text as Python's json.dumps(value, ensure_ascii=False) writes it: ", "
// and ": " between elements, members in their order.
#pragma once

#include <string>

#include "base/json.h"

namespace thalweg::tools {

std::string PythonJson(const base::Json& value);

}  // namespace thalweg::tools
