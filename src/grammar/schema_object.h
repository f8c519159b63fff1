// What several schemas say together about an object, key by key.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/schema_expand.h"

namespace thalweg::grammar {

struct ObjectPlan {
  struct Property {
    std::string name;
    DemandSet values;
    bool required = false;
    uint32_t witnesses = 0;  // bit i: this key is one of witness language i
  };
  struct OtherKeys {
    RegexId keys = kNothing;
    DemandSet values;
    uint32_t witnesses = 0;
  };
  std::vector<Property> properties = {};  // those that may be there, in order
  std::vector<OtherKeys> others = {};     // disjoint
  int64_t required = 0;                   // how many properties are
  int64_t min = 0;
  int64_t max = -1;            // < 0: without limit
  uint32_t all_witnesses = 0;  // of each language, some key must be there
  bool impossible = false;     // no object is allowed
};

// Errors: what cannot be told exactly.
Result<ObjectPlan> PlanObject(const std::vector<const Schema*>& schemas, SchemaExpander* expander,
                              SchemaContext* context);

}  // namespace thalweg::grammar
