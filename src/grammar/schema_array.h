// What several schemas say together about an array, item by item.
#pragma once

#include <vector>

#include "grammar/schema_model.h"

namespace thalweg::grammar {

struct ArrayPlan {
  std::vector<DemandSet> prefix = {};
  DemandSet items = {};  // beyond the prefix
  int64_t min = 0;
  int64_t max = -1;  // < 0: without limit
  std::vector<ContainsRule> contains = {};
  bool unique = false;

  const DemandSet& at(int64_t index) const {
    return index < static_cast<int64_t>(prefix.size()) ? prefix[static_cast<size_t>(index)] : items;
  }
};

ArrayPlan PlanArray(const std::vector<const Schema*>& schemas);

}  // namespace thalweg::grammar
