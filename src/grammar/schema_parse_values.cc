// The keywords that name types and values: type, enum, const.
#include <fmt/format.h>

#include <array>

#include "grammar/schema_number.h"
#include "grammar/schema_parse.h"

namespace thalweg::grammar {
namespace {

using base::Json;

struct NamedType {
  std::string_view name;
  TypeSet types;
};
constexpr std::array kTypes = {
    NamedType{"null", kNullType},       NamedType{"boolean", kBooleanType},
    NamedType{"integer", kIntegerType}, NamedType{"number", kNumberType},
    NamedType{"string", kStringType},   NamedType{"array", kArrayType},
    NamedType{"object", kObjectType},
};

// 0 for what is no name of a type.
TypeSet TypeOf(const Json& name) {
  if (!name.is_string()) return 0;
  for (const NamedType& type : kTypes) {
    if (type.name == name.get_ref<const std::string&>()) return type.types;
  }
  return 0;
}

}  // namespace

Status SchemaParser::ReadTypes(const Site& site) {
  const Json* type = site.Find("type");
  if (type == nullptr) return {};
  TypeSet types = 0;
  const Json one = type->is_array() ? Json() : Json::array({*type});
  for (const Json& name : type->is_array() ? *type : one) {
    const TypeSet known = TypeOf(name);
    if (known == 0) {
      return site.Wrong("type", fmt::format("{} is no type: null, boolean, integer, number, "
                                            "string, array and object are",
                                            name.dump()));
    }
    types |= known;
  }
  site.schema.types = types;
  site.schema.describes_object = (types & kObjectType) != 0;
  return {};
}

Status SchemaParser::ReadEnum(const Site& site) {
  if (const Json* values = site.Find("enum"); values != nullptr) {
    if (!values->is_array()) return site.Wrong("enum", "must be an array");
    std::vector<const Json*> pointers;
    for (const Json& value : *values) pointers.push_back(&value);
    TW_TRY(AddConstants(site, std::move(pointers), "enum"));
  }
  const Json* value = site.Find("const");
  return value == nullptr ? Status() : AddConstants(site, {value}, "const");
}

Status SchemaParser::AddConstants(const Site& site, std::vector<const Json*> values,
                                  std::string_view keyword) {
  std::vector<const Json*> scalars;
  std::vector<Branch> branches;
  for (const Json* value : values) {
    if (!value->is_structured()) {
      scalars.push_back(value);
      continue;
    }
    TW_ASSIGN(const Demand equal, ConstantDemand(site, *value, keyword));
    branches.push_back({equal});
  }
  TW_ASSIGN(const Demand scalar, ScalarDemand(site, scalars, keyword));
  if (branches.empty()) {
    site.schema.all_of.push_back(scalar);
    return {};
  }
  if (!scalars.empty()) branches.push_back({scalar});
  site.schema.choices.push_back(std::move(branches));
  return {};
}

Result<Demand> SchemaParser::ScalarDemand(const Site& site, const std::vector<const Json*>& values,
                                          std::string_view keyword) {
  Schema schema;
  schema.path = fmt::format("{}/{}", site.place.path, keyword);
  schema.types = 0;
  schema.enumerates = true;
  schema.constants = values;
  std::vector<RegexId> numbers, strings;
  for (const Json* value : values) {
    if (value->is_null()) schema.types |= kNullType;
    if (value->is_boolean()) schema.types |= value->get<bool>() ? kTrueType : kFalseType;
    if (value->is_string()) {
      strings.push_back(context_.languages.Text(value->get_ref<const std::string&>()));
    }
    if (value->is_number()) {
      TW_ASSIGN(numbers.emplace_back(), NumberEqualTo(*value, schema.path, &context_));
    }
  }
  if (!strings.empty()) schema.types |= kStringType;
  if (!numbers.empty()) schema.types |= kNumberType;
  schema.strings = context_.regexes.Either(strings);
  schema.numbers = context_.regexes.Either(numbers);
  return context_.table.Add(std::move(schema));
}

Result<Demand> SchemaParser::ConstantDemand(const Site& site, const Json& value,
                                            std::string_view keyword) {
  if (!value.is_structured()) return ScalarDemand(site, {&value}, keyword);
  TW_TRY(context_.CheckLimits());
  Schema schema;
  schema.path = fmt::format("{}/{}", site.place.path, keyword);
  schema.types = value.is_array() ? kArrayType : kObjectType;
  for (const auto& [key, member] : value.items()) {
    TW_ASSIGN(const Demand equal, ConstantDemand(site, member, keyword));
    if (value.is_array()) schema.prefix.push_back(equal);
    if (value.is_object()) schema.properties.emplace_back(key, equal);
    if (value.is_object()) schema.required.push_back(key);
  }
  const auto size = static_cast<int64_t>(value.size());
  if (value.is_array()) schema.min_items = schema.max_items = size;
  if (value.is_object()) schema.max_properties = size;
  return context_.table.Add(std::move(schema));
}

}  // namespace thalweg::grammar
