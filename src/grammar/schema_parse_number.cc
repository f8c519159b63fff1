// The keywords of numbers.
#include <array>

#include "grammar/number_range.h"
#include "grammar/schema_number.h"
#include "grammar/schema_parse.h"

namespace thalweg::grammar {
namespace {

using base::Json;
using Bound = std::optional<std::string>;

// Formats of the OpenAPI registry that are about numbers.
struct NumberFormat {
  std::string_view name;
  const char* minimum;
  const char* maximum;
};
constexpr std::array kNumberFormats = {
    NumberFormat{"int32", "-2147483648", "2147483647"},
    NumberFormat{"int64", "-9223372036854775808", "9223372036854775807"},
    NumberFormat{"uint32", "0", "4294967295"},
    NumberFormat{"uint64", "0", "18446744073709551615"},
};

const NumberFormat* FindNumberFormat(const Json* format) {
  if (format == nullptr || !format->is_string()) return nullptr;
  for (const NumberFormat& known : kNumberFormats) {
    if (known.name == format->get_ref<const std::string&>()) return &known;
  }
  return nullptr;
}

}  // namespace

Status SchemaParser::ReadBounds(const Site& site, NumberBounds* bounds) {
  for (const auto& [keyword, bound] : {std::pair<const char*, Bound*>{"minimum", &bounds->minimum},
                                       {"maximum", &bounds->maximum},
                                       {"exclusiveMinimum", &bounds->exclusive_minimum},
                                       {"exclusiveMaximum", &bounds->exclusive_maximum},
                                       {"multipleOf", &bounds->multiple_of}}) {
    const Json* value = site.Find(keyword);
    if (value == nullptr || value->is_boolean()) continue;
    TW_ASSIGN(*bound, DecimalText(*value, site.place.path, keyword));
  }
  TW_TRY(ReadExclusiveFlag(site, "exclusiveMinimum", &bounds->minimum, &bounds->exclusive_minimum));
  return ReadExclusiveFlag(site, "exclusiveMaximum", &bounds->maximum, &bounds->exclusive_maximum);
}

// Draft 4: exclusiveMinimum is a boolean that says what kind of bound `minimum` is.
Status SchemaParser::ReadExclusiveFlag(const Site& site, const char* keyword,
                                       std::optional<std::string>* bound,
                                       std::optional<std::string>* exclusive) {
  const Json* value = site.Find(keyword);
  if (value == nullptr || !value->is_boolean()) return {};
  if (!*bound) return site.Wrong(keyword, "must be a number");
  if (value->get<bool>()) std::swap(*bound, *exclusive);
  return {};
}

Status SchemaParser::ReadNumbers(const Site& site) {
  Schema& schema = site.schema;
  NumberBounds bounds;
  TW_TRY(ReadBounds(site, &bounds));
  const NumberFormat* format = FindNumberFormat(site.Find("format"));
  const bool bounded = bounds.minimum || bounds.maximum || bounds.exclusive_minimum ||
                       bounds.exclusive_maximum || bounds.multiple_of;
  if (!bounded && format == nullptr) return {};
  bounds.integer = schema.types != kEveryType && (schema.types & kFractionType) == 0;
  schema.integral = bounds.integer;
  if (bounded) {
    TW_ASSIGN(schema.numbers, NumbersWithin(site, bounds));
  }
  if (format == nullptr) return {};
  TW_ASSIGN(const RegexId range,
            NumbersWithin(
                site, {.integer = true, .minimum = format->minimum, .maximum = format->maximum}));
  schema.integral = true;
  schema.numbers = context_.regexes.Both(schema.numbers, range);
  return {};
}

Result<RegexId> SchemaParser::NumbersWithin(const Site& site, const NumberBounds& bounds) {
  Result<RegexId> range = context_.languages.Numbers(bounds);
  if (range.ok()) return range;
  return range.status().WithContext("schema at " +
                                    (site.place.path.empty() ? "the root" : site.place.path));
}

}  // namespace thalweg::grammar
