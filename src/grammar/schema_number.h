// Numbers of a schema as languages of their text.
//
// A language of NumberRange has every spelling without an exponent, and some with one. So the
// numbers that are *not* in one are known among spellings without an exponent only.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "grammar/schema_context.h"

namespace thalweg::grammar {

// Any number; any whole number.
Result<RegexId> NumberText(bool integer, SchemaContext* context);
// Spellings without an exponent of the numbers that are not in `numbers`.
RegexId OtherNumbers(RegexId numbers, RegexArena* arena);
// `path` is for messages.
Result<RegexId> NumberEqualTo(const base::Json& value, std::string_view path,
                              SchemaContext* context);
// The text of a number of the schema. Numbers beyond 64 bits are read as binary fractions; an
// error where that may have changed the value.
Result<std::string> DecimalText(const base::Json& value, std::string_view path,
                                std::string_view keyword);

}  // namespace thalweg::grammar
