// --json-schema, --regex, --ebnf: a constraint as the command line names it.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace thalweg::tools {

// Rows of these options and of those that say how a schema's JSON is written.
std::vector<base::OptionRow> ConstraintOptionRows();
// The so_args (engine/constraints.h) that they stand for; empty: none of them
// is given. More than one, a file that cannot be read or is no JSON, a schema's
// option without a schema: errors that name the option.
Result<std::string> SoArgsFrom(const base::OptionValues& values);

}  // namespace thalweg::tools
