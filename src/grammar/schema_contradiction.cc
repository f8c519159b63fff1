// Shapes that no value has: found early, they cost nothing later.
#include <algorithm>
#include <string_view>

#include "grammar/schema_expand.h"

namespace thalweg::grammar {
namespace {

// States of a language that are followed to see whether it is empty, and how deep children are
// looked at: a contradiction that is not found does no harm.
constexpr int64_t kStatesLookedAt = 256;
constexpr size_t kDepthLookedAt = 8;

bool Forbids(const Schema& schema, std::string_view name) {
  return std::any_of(schema.properties.begin(), schema.properties.end(), [&](const auto& property) {
    return property.second == kAllowNone && property.first == name;
  });
}

bool RequiresForbidden(const Shape& shape) {
  for (const Schema* one : shape.objects) {
    for (const std::string& name : one->required) {
      for (const Schema* other : shape.objects) {
        if (Forbids(*other, name)) return true;
      }
    }
  }
  return false;
}

Counts ItemCounts(const Shape& shape) {
  Counts counts;
  for (const Schema* schema : shape.arrays) counts.Meet({schema->min_items, schema->max_items});
  return counts;
}

Counts PropertyCounts(const Shape& shape) {
  Counts counts;
  for (const Schema* schema : shape.objects) {
    counts.Meet({schema->min_properties, schema->max_properties});
  }
  return counts;
}

// What `schema` asks of the value of a key; patterns are left out.
Demand ValueDemand(const Schema& schema, std::string_view name) {
  for (const auto& [property, demand] : schema.properties) {
    if (property == name) return demand;
  }
  return schema.patterns.empty() ? schema.additional.value_or(kAllowAll) : kAllowAll;
}

Demand ItemDemand(const Schema& schema, size_t index) {
  return index < schema.prefix.size() ? schema.prefix[index] : schema.items.value_or(kAllowAll);
}

}  // namespace

void SchemaExpander::DropContradictions(Shape* shape) const {
  if (RequiresForbidden(*shape) || PropertyCounts(*shape).none()) {
    shape->types = Without(shape->types, kObjectType);
  }
  if (ItemCounts(*shape).none()) shape->types = Without(shape->types, kArrayType);
  if (shape->strings == kNothing || shape->length.none())
    shape->types = Without(shape->types, kStringType);
  if (shape->numbers == kNothing) shape->types = Without(shape->types, kNumberType);
}

void SchemaExpander::DropEmpty(Shape* shape) {
  const auto nothing = [&](RegexId language) {
    return language != kAnything &&
           context_.regexes.IsNothing(language, kStatesLookedAt).value_or(false);
  };
  const auto drop = [&](TypeSet types, auto empty) {
    if ((shape->types & types) != 0 && empty()) shape->types = Without(shape->types, types);
  };
  drop(kStringType, [&] { return nothing(shape->strings); });
  drop(kNumberType, [&] { return nothing(shape->numbers); });
  drop(kObjectType, [&] { return HasEmptyProperty(*shape); });
  drop(kArrayType, [&] { return HasEmptyItem(*shape); });
}

bool SchemaExpander::HasEmptyProperty(const Shape& shape) {
  for (const Schema* one : shape.objects) {
    for (const std::string& name : one->required) {
      std::vector<Demand> demands;
      for (const Schema* other : shape.objects) demands.push_back(ValueDemand(*other, name));
      if (IsEmpty(MakeDemandSet(std::move(demands)))) return true;
    }
  }
  return false;
}

bool SchemaExpander::HasEmptyItem(const Shape& shape) {
  const int64_t least = std::min<int64_t>(ItemCounts(shape).least, 64);
  for (int64_t i = 0; i < least; ++i) {
    std::vector<Demand> demands;
    for (const Schema* schema : shape.arrays) {
      demands.push_back(ItemDemand(*schema, static_cast<size_t>(i)));
    }
    if (IsEmpty(MakeDemandSet(std::move(demands)))) return true;
  }
  return false;
}

// A value that is looked at already counts as not empty.
bool SchemaExpander::IsEmpty(DemandSet demands) {
  if (demands.size() == 1) return demands.front() == kAllowNone;
  if (demands.empty() || in_progress_.size() > kDepthLookedAt || in_progress_.contains(demands)) {
    return false;
  }
  const Result<const std::vector<Shape>*> shapes = Expand(demands);
  return shapes.ok() && shapes.value()->empty();
}

}  // namespace thalweg::grammar
