// Fields of a JSON object by name and type; errors name the field as a path ("model.merges[3]").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace thalweg::text {

// A value inside a document, with its path for messages.
class JsonField {
 public:
  JsonField(const base::Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const base::Json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return value_->is_null(); }

  // Errors about this field.
  Status Wrong(std::string_view what) const;
  Status NotSupported(std::string_view what) const;

  // The member of an object; the second form is nothing when it is absent or null.
  Result<JsonField> Member(std::string_view name) const;
  Result<std::optional<JsonField>> Optional(std::string_view name) const;
  JsonField Element(size_t index) const;

  Result<std::string> AsString() const;
  Result<bool> AsBool() const;
  // An integer 0..max.
  Result<int32_t> AsId(int32_t max) const;
  Status RequireArray() const;
  Status RequireObject() const;

  // Members with a default for absent or null.
  Result<bool> BoolOr(std::string_view name, bool fallback) const;
  Result<std::string> StringOr(std::string_view name, std::string_view fallback) const;

 private:
  const base::Json* value_;
  std::string path_;
};

}  // namespace thalweg::text
