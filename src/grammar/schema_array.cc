#include "grammar/schema_array.h"

#include <algorithm>

namespace thalweg::grammar {
namespace {

void LowerMax(int64_t max, ArrayPlan* plan) {
  if (max >= 0) plan->max = plan->max < 0 ? max : std::min(plan->max, max);
}

DemandSet ItemsAt(const std::vector<const Schema*>& schemas, size_t index) {
  std::vector<Demand> demands;
  for (const Schema* schema : schemas) {
    demands.push_back(index < schema->prefix.size() ? schema->prefix[index]
                                                    : schema->items.value_or(kAllowAll));
  }
  return MakeDemandSet(std::move(demands));
}

bool Never(const DemandSet& demands) { return !demands.empty() && demands.front() == kAllowNone; }

}  // namespace

ArrayPlan PlanArray(const std::vector<const Schema*>& schemas) {
  ArrayPlan plan;
  size_t longest = 0;
  for (const Schema* schema : schemas) {
    longest = std::max(longest, schema->prefix.size());
    plan.min = std::max(plan.min, schema->min_items);
    LowerMax(schema->max_items, &plan);
    if (schema->contains) plan.contains.push_back(*schema->contains);
    plan.unique |= schema->unique_items;
  }
  for (size_t i = 0; i < longest; ++i) {
    plan.prefix.push_back(ItemsAt(schemas, i));
    if (Never(plan.prefix.back())) LowerMax(static_cast<int64_t>(i), &plan);
  }
  plan.items = ItemsAt(schemas, longest);
  if (Never(plan.items)) LowerMax(static_cast<int64_t>(longest), &plan);
  if (plan.max >= 0 && plan.max < 2) plan.unique = false;
  return plan;
}

}  // namespace thalweg::grammar
