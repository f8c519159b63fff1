// Options as rows: flags, environment names, option file keys and --help all come from one table
// (house rule 15).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::base {

enum class OptionKind { kText, kInteger, kReal, kFlag };

struct OptionRow {
  std::string name = {};  // without dashes: the flag is --name, the option file key is name
  OptionKind kind = OptionKind::kText;
  std::string help = {};
  std::string fallback = {};     // the default, as text; empty: none
  std::string environment = {};  // name of the environment variable that is honoured, or empty
  double least = 0;              // kInteger, kReal
  double most = 0;               // the range is checked when most > least
  std::vector<std::string> choices = {};  // kText: the only values; empty: any
  std::string value_name = {};            // for --help
};

// Arguments without a flag.
struct Positionals {
  std::string name = {};  // for --help, such as "PROMPT"; empty: none are taken
  std::string help = {};
  int least = 0;
  int most = 0;
};

// What the user asked for. Every value has been checked against its row.
class OptionValues {
 public:
  bool Has(std::string_view name) const { return values_.contains(std::string(name)); }
  std::string Text(std::string_view name) const;  // "" when unset
  int64_t Integer(std::string_view name) const;   // the option must have a value
  double Real(std::string_view name) const;
  bool Flag(std::string_view name) const { return Has(name) && Text(name) == "true"; }
  std::optional<int64_t> OptionalInteger(std::string_view name) const;
  std::optional<double> OptionalReal(std::string_view name) const;
  const std::vector<std::string>& positionals() const { return positionals_; }
  // "name=value" of every option with a value, for the log.
  std::string Describe() const;

  void Set(const std::string& name, std::string value) { values_[name] = std::move(value); }
  void SetPositionals(std::vector<std::string> values) { positionals_ = std::move(values); }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> positionals_;
};

// Checks one value against its row; the error names where it came from.
Status CheckOption(const OptionRow& row, const std::string& value, std::string_view origin);

// Fills what the command line left open: environment, then the option file (a JSON object), then
// defaults. `values` holds the command line's. Unknown keys in the file are errors that list the
// known ones.
Status ResolveOptions(std::span<const OptionRow> rows, const std::string& option_file,
                      OptionValues* values);

}  // namespace thalweg::base
