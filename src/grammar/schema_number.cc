#include "grammar/schema_number.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "grammar/schema_document.h"

namespace thalweg::grammar {
namespace {

using base::Json;

RegexId PlainNumbers(RegexArena* arena) {
  const RegexId digit = arena->Bytes(ByteSet::Range('0', '9'));
  const RegexId digits = arena->Repeat(digit, 1, -1);
  const RegexId whole = arena->Either(
      arena->Literal("0"),
      arena->Concat(arena->Bytes(ByteSet::Range('1', '9')), arena->Repeat(digit, 0, -1)));
  const RegexId fraction = arena->Concat(arena->Literal("."), digits);
  return arena->Concat(
      std::array{arena->Repeat(arena->Literal("-"), 0, 1), whole, arena->Repeat(fraction, 0, 1)});
}

}  // namespace

Result<RegexId> NumberText(bool integer, SchemaContext* context) {
  return context->languages.Numbers({.integer = integer});
}

RegexId OtherNumbers(RegexId numbers, RegexArena* arena) {
  return arena->Both(PlainNumbers(arena), arena->Not(numbers));
}

Result<std::string> DecimalText(const Json& value, std::string_view path,
                                std::string_view keyword) {
  if (!value.is_number()) return SchemaError(path, keyword, "must be a number");
  std::string text = value.dump();
  if (!value.is_number_float() || std::abs(value.get<double>()) < 0x1p63) return text;
  const auto digits = std::count_if(
      text.begin(), text.begin() + static_cast<ptrdiff_t>(std::min(text.find('e'), text.size())),
      [](char c) { return c >= '1' && c <= '9'; });
  if (digits > 15) {
    return SchemaUnsupported(path, keyword, "has more digits than can be kept exactly");
  }
  return text;
}

Result<RegexId> NumberEqualTo(const Json& value, std::string_view path, SchemaContext* context) {
  TW_ASSIGN(const std::string text, DecimalText(value, path, "enum"));
  return context->languages.Numbers({.minimum = text, .maximum = text});
}

}  // namespace thalweg::grammar
