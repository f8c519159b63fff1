#include "grammar/schema_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace thalweg::grammar {
namespace {

using base::Json;

// What larger counts are taken as: no text is that long.
constexpr int64_t kLargestCount = INT32_MAX;

// Where a keyword stands among the others; behind them all when it is absent.
int64_t PositionOf(const Json& json, std::string_view keyword) {
  int64_t position = 0;
  for (const auto& [key, value] : json.items()) {
    if (key == keyword) return position;
    ++position;
  }
  return position + 1;
}

}  // namespace

const Json* SchemaParser::Site::Find(const char* keyword) const {
  const auto member = json.find(keyword);
  return member == json.end() ? nullptr : &*member;
}

Status SchemaParser::Site::Wrong(std::string_view keyword, std::string_view problem) const {
  return SchemaError(place.path, keyword, problem);
}

Status SchemaParser::Site::Refuse(std::string_view keyword, std::string_view problem) const {
  return SchemaUnsupported(place.path, keyword, problem);
}

SchemaParser::SchemaParser(const SchemaDocument& document, SchemaContext* context)
    : document_(document), context_(*context) {}

Result<Demand> SchemaParser::Parse() {
  TW_ASSIGN(const Demand root, DemandOf(document_.root()));
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    TW_TRY(context_.CheckLimits());
    TW_TRY(Read(next.place, next.demand));
  }
  return root;
}

Result<Demand> SchemaParser::DemandOf(const SchemaPlace& place) {
  if (place.json->is_boolean()) return place.json->get<bool>() ? kAllowAll : kAllowNone;
  if (!place.json->is_object()) {
    return base::InvalidArgument(
        fmt::format("schema at {}: a schema must be an object, true or false",
                    place.path.empty() ? "the root" : place.path));
  }
  const auto [entry, fresh] = demands_.try_emplace(place.json, kAllowAll);
  if (!fresh) return entry->second;
  Schema schema;
  schema.path = place.path;
  entry->second = context_.table.Add(std::move(schema));
  pending_.push_back({place, entry->second});
  return entry->second;
}

Result<Demand> SchemaParser::Child(const Site& site, std::string_view steps, const Json& json) {
  return DemandOf(document_.Child(site.place, steps, json));
}

Result<std::optional<Demand>> SchemaParser::ChildOf(const Site& site, const char* keyword) {
  const Json* json = site.Find(keyword);
  if (json == nullptr) return std::optional<Demand>();
  TW_ASSIGN(const Demand demand, Child(site, keyword, *json));
  return std::optional<Demand>(demand);
}

Result<std::vector<Demand>> SchemaParser::ChildrenOf(const Site& site, const char* keyword) {
  std::vector<Demand> demands;
  const Json* list = site.Find(keyword);
  if (list == nullptr) return demands;
  if (!list->is_array()) return site.Wrong(keyword, "must be an array of schemas");
  for (size_t i = 0; i < list->size(); ++i) {
    TW_ASSIGN(demands.emplace_back(), Child(site, fmt::format("{}/{}", keyword, i), (*list)[i]));
  }
  return demands;
}

Status SchemaParser::Read(const SchemaPlace& place, Demand demand) {
  const Site site{place, *place.json, context_.table.mutable_of(demand)};
  // Until draft 7, $ref stands alone: its neighbours say nothing.
  if (document_.legacy() && site.Find("$ref") != nullptr) return ReadReferences(site);
  for (const auto read :
       {&SchemaParser::ReadTypes, &SchemaParser::ReadEnum, &SchemaParser::ReadNumbers,
        &SchemaParser::ReadStrings, &SchemaParser::ReadItems, &SchemaParser::ReadArrays,
        &SchemaParser::ReadObjects, &SchemaParser::ReadReferences, &SchemaParser::ReadCombinations,
        &SchemaParser::ReadCondition, &SchemaParser::ReadUnevaluated}) {
    TW_TRY((this->*read)(site));
  }
  return {};
}

Status SchemaParser::AddReference(const Site& site, const char* keyword) {
  const Json& reference = *site.Find(keyword);
  if (!reference.is_string()) return site.Wrong(keyword, "must be a string");
  TW_ASSIGN(const SchemaPlace target,
            document_.Resolve(reference.get_ref<const std::string&>(), site.place, keyword));
  TW_ASSIGN(site.schema.all_of.emplace_back(), DemandOf(target));
  return {};
}

Status SchemaParser::ReadReferences(const Site& site) {
  if (site.Find("$ref") != nullptr) TW_TRY(AddReference(site, "$ref"));
  if (site.Find("$dynamicRef") != nullptr) TW_TRY(ReadDynamicReference(site));
  if (site.Find("$recursiveRef") != nullptr) {
    return site.Refuse("$recursiveRef", "is not supported; use $ref");
  }
  return {};
}

// With one target in the whole document there is nothing to be chosen while a value is read.
Status SchemaParser::ReadDynamicReference(const Site& site) {
  const Json& reference = *site.Find("$dynamicRef");
  if (!reference.is_string()) return site.Wrong("$dynamicRef", "must be a string");
  const auto& text = reference.get_ref<const std::string&>();
  const size_t hash = text.find('#');
  const std::string anchor = hash == std::string::npos ? "" : text.substr(hash + 1);
  if (document_.CountDynamicAnchors(anchor) > 1) {
    return site.Refuse("$dynamicRef", "has several possible targets; use $ref");
  }
  return AddReference(site, "$dynamicRef");
}

Status SchemaParser::ReadCombinations(const Site& site) {
  Schema& schema = site.schema;
  const int64_t own = PositionOf(site.json, "properties");
  schema.own_properties_first =
      own < PositionOf(site.json, "allOf") && own < PositionOf(site.json, "$ref");
  TW_ASSIGN(const std::vector<Demand> all, ChildrenOf(site, "allOf"));
  schema.all_of.insert(schema.all_of.end(), all.begin(), all.end());
  TW_ASSIGN(const std::vector<Demand> any, ChildrenOf(site, "anyOf"));
  if (site.Find("anyOf") != nullptr) {
    std::vector<Branch>& branches = schema.choices.emplace_back();
    for (const Demand demand : any) branches.push_back({demand});
  }
  TW_ASSIGN(const std::vector<Demand> one, ChildrenOf(site, "oneOf"));
  if (site.Find("oneOf") != nullptr) schema.one_of.push_back(one);
  for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
    const Json* list = site.Find(keyword);
    if (list != nullptr && list->empty()) return site.Wrong(keyword, "must not be empty");
  }
  TW_ASSIGN(const std::optional<Demand> denied, ChildOf(site, "not"));
  if (denied) schema.all_of.push_back(Opposite(*denied));
  return {};
}

Status SchemaParser::ReadCondition(const Site& site) {
  TW_ASSIGN(const std::optional<Demand> condition, ChildOf(site, "if"));
  if (!condition) return {};
  TW_ASSIGN(const std::optional<Demand> then, ChildOf(site, "then"));
  TW_ASSIGN(const std::optional<Demand> otherwise, ChildOf(site, "else"));
  if (!then && !otherwise) return {};
  site.schema.choices.push_back({{*condition, then.value_or(kAllowAll)},
                                 {Opposite(*condition), otherwise.value_or(kAllowAll)}});
  return {};
}

// With no schema in place beside it, what is not evaluated is what is additional.
Status SchemaParser::ReadUnevaluated(const Site& site) {
  Schema& schema = site.schema;
  const bool alone = schema.all_of.empty() && schema.choices.empty() && schema.one_of.empty();
  TW_ASSIGN(const std::optional<Demand> values, ChildOf(site, "unevaluatedProperties"));
  if (values && *values != kAllowAll && !schema.additional) {
    if (!alone) {
      return site.Refuse("unevaluatedProperties",
                         "is not supported beside allOf, anyOf, oneOf, "
                         "not, if, $ref and dependent schemas");
    }
    schema.additional = values;
  }
  TW_ASSIGN(const std::optional<Demand> items, ChildOf(site, "unevaluatedItems"));
  if (items && *items != kAllowAll && !schema.items) {
    if (!alone || schema.contains) {
      return site.Refuse("unevaluatedItems",
                         "is not supported beside contains, allOf, anyOf, "
                         "oneOf, not, if, $ref and dependent schemas");
    }
    schema.items = items;
  }
  return {};
}

Result<int64_t> SchemaParser::CountOf(const Site& site, const char* keyword, int64_t absent) {
  const Json* value = site.Find(keyword);
  if (value == nullptr) return absent;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0) || number != std::floor(number)) {
    return site.Wrong(keyword, "must be an integer of at least 0");
  }
  if (number >= static_cast<double>(kLargestCount)) return kLargestCount;
  return static_cast<int64_t>(number);
}

Result<int64_t> SchemaParser::LeastOf(const Site& site, const char* keyword, int64_t absent) {
  TW_ASSIGN(const int64_t count, CountOf(site, keyword, absent));
  if (count > context_.limits.repetition) {
    return base::OutOfRange(SchemaMessage(
        site.place.path, keyword,
        fmt::format("{} is more than the limit {}", count, context_.limits.repetition)));
  }
  return count;
}

Result<std::vector<std::string>> SchemaParser::NamesOf(const Site& site, const Json& list,
                                                       std::string_view keyword) {
  if (!list.is_array()) return site.Wrong(keyword, "must be an array of strings");
  std::vector<std::string> names;
  for (const Json& name : list) {
    if (!name.is_string()) return site.Wrong(keyword, "must be an array of strings");
    names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace thalweg::grammar
