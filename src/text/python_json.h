// JSON text as Python's json.dumps(value, ensure_ascii=False) writes it, which is how the model has
// seen schemas and arguments (spec/serving.md 2.3 rule 13).
#pragma once

#include <string>

#include "base/json.h"

namespace thalweg::text {

// ", " and ": " between elements, members in their order, non-ASCII characters as they are. Floats
// are finite and written as repr does: the shortest digits that read back, 1e-05, 1e+16, 1.0.
// Ill-formed UTF-8 becomes U+FFFD.
std::string PythonJson(const base::Json& value);
void AppendPythonJson(const base::Json& value, std::string* out);

// A finite float as Python's repr writes it.
std::string PythonFloat(double value);

}  // namespace thalweg::text
