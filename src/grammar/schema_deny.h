// What it means that a schema does not hold.
#pragma once

#include <vector>

#include "grammar/schema_context.h"
#include "grammar/schema_model.h"

namespace thalweg::grammar {

// Schemas of a oneOf that are compared two by two.
inline constexpr size_t kMostOneOf = 128;

// Branches of which at least one holds where `schema` does not, and none where it does: one for
// each keyword. A keyword whose opposite cannot be expressed gives a branch with a refusal.
std::vector<Branch> DenySchema(const Schema& schema, SchemaContext* context);

}  // namespace thalweg::grammar
