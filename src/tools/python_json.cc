#include "tools/python_json.h"

#include <utility>

namespace thalweg::tools {
namespace {

// Depth is bounded by that of the parser the value comes from.
void Write(const base::Json& value, std::string* out) {
  if (value.is_object()) {
    *out += '{';
    bool first = true;
    for (const auto& [name, member] : value.items()) {
      if (!std::exchange(first, false)) *out += ", ";
      *out += base::Json(name).dump() + ": ";
      Write(member, out);
    }
    *out += '}';
  } else if (value.is_array()) {
    *out += '[';
    for (const base::Json& element : value) {
      if (&element != &value.front()) *out += ", ";
      Write(element, out);
    }
    *out += ']';
  } else {
    *out += value.dump();
  }
}

}  // namespace

std::string PythonJson(const base::Json& value) {
  std::string out;
  Write(value, &out);
  return out;
}

}  // namespace thalweg::tools
