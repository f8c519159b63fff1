// The members of a JSON object, each checked for type and range; errors name the path.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace thalweg::sim {

class JsonFields {
 public:
  // `json` must outlive the fields. An error when it is no object or has members beside `known`.
  static Result<JsonFields> Open(const base::Json& json, std::string path,
                                 std::initializer_list<std::string_view> known);

  bool Has(std::string_view name) const { return json_->contains(name); }
  // Errors: a missing member, one of another type, a value out of range.
  Result<int64_t> Integer(std::string_view name, int64_t least, int64_t most) const;
  Result<double> Real(std::string_view name, double least, double most) const;
  Result<std::string> Text(std::string_view name) const;
  Result<std::vector<int64_t>> Integers(std::string_view name, int64_t least, int64_t most,
                                        size_t most_values) const;
  // A list of lists of `width` numbers each, none negative, in [0, most].
  Result<std::vector<std::vector<double>>> Rows(std::string_view name, size_t width, double most,
                                                size_t most_rows) const;
  Result<const base::Json*> Member(std::string_view name) const;
  std::string PathOf(std::string_view name) const;

  // "format" and "version" of a file.
  Status CheckFormat(std::string_view format) const;

 private:
  JsonFields(const base::Json* json, std::string path) : json_(json), path_(std::move(path)) {}
  Status Wrong(std::string_view name, std::string_view wanted) const;

  const base::Json* json_;
  std::string path_;
};

}  // namespace thalweg::sim
