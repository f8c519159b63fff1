// The keywords of objects.
#include <fmt/format.h>

#include "grammar/schema_parse.h"

namespace thalweg::grammar {

using base::Json;

Status SchemaParser::ReadObjects(const Site& site) {
  Schema& schema = site.schema;
  TW_TRY(ReadProperties(site));
  TW_TRY(ReadPatterns(site));
  TW_ASSIGN(schema.additional, ChildOf(site, "additionalProperties"));
  TW_ASSIGN(schema.property_names, ChildOf(site, "propertyNames"));
  if (const Json* required = site.Find("required"); required != nullptr) {
    TW_ASSIGN(schema.required, NamesOf(site, *required, "required"));
  }
  TW_ASSIGN(schema.min_properties, LeastOf(site, "minProperties"));
  TW_ASSIGN(schema.max_properties, CountOf(site, "maxProperties", -1));
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    TW_TRY(ReadDependencies(site, keyword));
  }
  return {};
}

Status SchemaParser::ReadProperties(const Site& site) {
  const Json* properties = site.Find("properties");
  if (properties == nullptr) return {};
  if (!properties->is_object()) return site.Wrong("properties", "must be an object of schemas");
  site.schema.describes_object = true;
  for (const auto& [name, json] : properties->items()) {
    TW_ASSIGN(const Demand demand, Child(site, "properties/" + PointerStep(name), json));
    site.schema.properties.emplace_back(name, demand);
  }
  return {};
}

Status SchemaParser::ReadPatterns(const Site& site) {
  const Json* patterns = site.Find("patternProperties");
  if (patterns == nullptr) return {};
  if (!patterns->is_object()) {
    return site.Wrong("patternProperties", "must be an object of schemas");
  }
  for (const auto& [pattern, json] : patterns->items()) {
    const std::string steps = "patternProperties/" + PointerStep(pattern);
    TW_ASSIGN(const Demand demand, Child(site, steps, json));
    const Result<RegexId> keys = context_.languages.Pattern(pattern);
    if (!keys.ok()) return keys.status().WithContext(site.place.path + "/" + steps);
    site.schema.patterns.push_back({keys.value(), demand});
  }
  return {};
}

Status SchemaParser::ReadDependencies(const Site& site, const char* keyword) {
  const Json* map = site.Find(keyword);
  if (map == nullptr) return {};
  if (!map->is_object()) return site.Wrong(keyword, "must be an object");
  for (const auto& [key, value] : map->items()) {
    TW_TRY(AddDependency(site, fmt::format("{}/{}", keyword, PointerStep(key)), key, value));
  }
  return {};
}

// Either the key is absent (in whatever has keys), or it is there with what it asks for.
Status SchemaParser::AddDependency(const Site& site, const std::string& steps,
                                   const std::string& key, const Json& value) {
  Schema absent, present;
  absent.path = present.path = site.place.path + "/" + steps;
  absent.properties = {{key, kAllowNone}};
  present.types = kObjectType;
  present.required = {key};
  if (value.is_array()) {
    if (value.empty()) return {};
    TW_ASSIGN(const std::vector<std::string> names, NamesOf(site, value, steps));
    present.required.insert(present.required.end(), names.begin(), names.end());
  } else {
    TW_ASSIGN(present.all_of.emplace_back(), Child(site, steps, value));
  }
  const Demand without = context_.table.Add(std::move(absent));
  const Demand with = context_.table.Add(std::move(present));
  site.schema.choices.push_back({{without}, {with}});
  return {};
}

}  // namespace thalweg::grammar
