#include "grammar/schema_model.h"

#include <algorithm>

namespace thalweg::grammar {

DemandSet MakeDemandSet(std::vector<Demand> demands) {
  std::sort(demands.begin(), demands.end());
  demands.erase(std::unique(demands.begin(), demands.end()), demands.end());
  if (!demands.empty() && demands.front() == kAllowAll) demands.erase(demands.begin());
  if (!demands.empty() && demands.front() == kAllowNone) demands.resize(1);
  return demands;
}

void Counts::Meet(const Counts& other) {
  least = std::max(least, other.least);
  if (other.most >= 0) most = most < 0 ? other.most : std::min(most, other.most);
}

bool Schema::HasArrayPart() const {
  return !prefix.empty() || items || min_items > 0 || max_items >= 0 || contains || unique_items;
}

bool Schema::HasObjectPart() const {
  return !properties.empty() || !patterns.empty() || additional || property_names ||
         !required.empty() || min_properties > 0 || max_properties >= 0 || !some_keys.empty() ||
         describes_object;
}

SchemaTable::SchemaTable() { schemas_.emplace_back(); }

Demand SchemaTable::Add(Schema schema) {
  schemas_.push_back(std::move(schema));
  return static_cast<Demand>(2 * (schemas_.size() - 1));
}

}  // namespace thalweg::grammar
