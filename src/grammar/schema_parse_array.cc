// The keywords of arrays.
#include "grammar/schema_parse.h"

namespace thalweg::grammar {

using base::Json;

// Draft 7 writes the prefix as `items`, and what follows it as `additionalItems`.
Status SchemaParser::ReadItems(const Site& site) {
  Schema& schema = site.schema;
  TW_ASSIGN(schema.prefix, ChildrenOf(site, "prefixItems"));
  const Json* items = site.Find("items");
  if (items == nullptr) return {};
  if (!items->is_array()) {
    TW_ASSIGN(schema.items, ChildOf(site, "items"));
    return {};
  }
  if (!schema.prefix.empty()) return site.Wrong("items", "must be a schema beside prefixItems");
  TW_ASSIGN(schema.prefix, ChildrenOf(site, "items"));
  TW_ASSIGN(schema.items, ChildOf(site, "additionalItems"));
  return {};
}

Status SchemaParser::ReadArrays(const Site& site) {
  Schema& schema = site.schema;
  TW_ASSIGN(schema.min_items, LeastOf(site, "minItems"));
  TW_ASSIGN(schema.max_items, CountOf(site, "maxItems", -1));
  if (const Json* unique = site.Find("uniqueItems"); unique != nullptr) {
    if (!unique->is_boolean()) return site.Wrong("uniqueItems", "must be true or false");
    schema.unique_items = unique->get<bool>();
  }
  return ReadContains(site);
}

Status SchemaParser::ReadContains(const Site& site) {
  TW_ASSIGN(const std::optional<Demand> items, ChildOf(site, "contains"));
  ContainsRule rule;
  TW_ASSIGN(rule.min, LeastOf(site, "minContains", 1));
  TW_ASSIGN(rule.max, CountOf(site, "maxContains", -1));
  if (!items || (rule.min == 0 && rule.max < 0)) return {};
  rule.items = *items;
  site.schema.contains = rule;
  return {};
}

}  // namespace thalweg::grammar
