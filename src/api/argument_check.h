// Whether the arguments of a call fit the schema of its tool, after the fact: for models and modes
// in which no grammar binds the text while it is written (docs/decoder.md).
#pragma once

#include <memory>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace thalweg::grammar {
class Grammar;
}

namespace thalweg::api {

class ArgumentCheck {
 public:
  // `parameters`: the JSON Schema of a tool's parameters. A schema that cannot be checked exactly
  // is an error that names keyword and path.
  static Result<ArgumentCheck> Create(const base::Json& parameters);

  // `arguments`: the JSON text of a complete call; members in any order. An error names the byte at
  // which it leaves the schema. Thread-safe.
  Status Check(std::string_view arguments) const;

 private:
  explicit ArgumentCheck(std::shared_ptr<grammar::Grammar> grammar);

  std::shared_ptr<grammar::Grammar> grammar_;
};

}  // namespace thalweg::api
