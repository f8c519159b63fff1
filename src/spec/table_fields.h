// Fields of the room's stored tables: an object has exactly the fields it should, each of its type
// and in its range. Errors name table and field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace thalweg::spec {

class TableFields {
 public:
  // json must outlive the fields. kInvalidArgument: no object, a field missing or unknown.
  static Result<TableFields> Open(const base::Json& json, std::string what,
                                  std::initializer_list<std::string_view> names);

  Result<int64_t> Integer(std::string_view name, int64_t least, int64_t most) const;
  Result<double> Real(std::string_view name, double least, double most) const;
  Result<std::string> Text(std::string_view name, size_t max_bytes) const;
  // A string that must be this one.
  Status Is(std::string_view name, std::string_view wanted) const;
  Result<std::vector<double>> Reals(std::string_view name, size_t max_count, double least,
                                    double most) const;
  // An array of at most so many values.
  Result<const base::Json*> List(std::string_view name, size_t max_count) const;

 private:
  TableFields(const base::Json& json, std::string what) : json_(&json), what_(std::move(what)) {}
  std::string Path(std::string_view name) const;

  const base::Json* json_;
  std::string what_;
};

// "what is <value>, but must be <wanted>".
Status WrongField(std::string_view what, const base::Json& value, std::string_view wanted);

// Values by themselves.
Result<int64_t> IntegerOf(const base::Json& value, std::string_view what, int64_t least,
                          int64_t most);
Result<double> RealOf(const base::Json& value, std::string_view what, double least, double most);

}  // namespace thalweg::spec
