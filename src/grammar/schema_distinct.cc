// uniqueItems: the values that the items of an array can have, where they are few.
#include <algorithm>

#include "grammar/schema_document.h"
#include "grammar/schema_emit.h"

namespace thalweg::grammar {
namespace {

constexpr size_t kMostDistinct = 10;  // 2^n states
constexpr int64_t kStatesLookedAt = 1024;

const base::Json kNull = nullptr;
const base::Json kFalse = false;
const base::Json kTrue = true;

Status Refuse(const std::string& path) {
  return SchemaUnsupported(path, "uniqueItems",
                           "can only be enforced with maxItems 1, or where items are at most 10 "
                           "values of an enum, or true, false and null");
}

bool Has(const std::vector<const base::Json*>& values, const base::Json& value) {
  return std::any_of(values.begin(), values.end(),
                     [&](const base::Json* known) { return *known == value; });
}

void Add(const base::Json& value, std::vector<const base::Json*>* values) {
  if (!Has(*values, value)) values->push_back(&value);
}

}  // namespace

Result<std::vector<const base::Json*>> SchemaEmitter::DistinctValues(const ArrayPlan& plan,
                                                                     const std::string& path) {
  std::vector<const base::Json*> values;
  for (size_t i = 0; i <= plan.prefix.size(); ++i) {
    if (plan.max >= 0 && static_cast<int64_t>(i) >= plan.max) break;
    TW_ASSIGN(const std::vector<Shape>* shapes, expander_.Expand(plan.at(static_cast<int64_t>(i))));
    for (const Shape& shape : *shapes) TW_TRY(AddDistinct(shape, path, &values));
  }
  if (values.size() > kMostDistinct) return Refuse(path);
  return values;
}

Status SchemaEmitter::AddDistinct(const Shape& shape, const std::string& path,
                                  std::vector<const base::Json*>* values) {
  const TypeSet few = kNullType | kBooleanType;
  if ((shape.types & (kArrayType | kObjectType)) != 0) return Refuse(path);
  if ((shape.types & kNullType) != 0) Add(kNull, values);
  if ((shape.types & kFalseType) != 0) Add(kFalse, values);
  if ((shape.types & kTrueType) != 0) Add(kTrue, values);
  if (Without(shape.types, few) == 0) return {};
  if (shape.enumeration == nullptr) return Refuse(path);
  for (const base::Json* value : shape.enumeration->constants) Add(*value, values);
  return {};
}

// How each of the values may be written where `demands` hold.
Result<std::vector<RegexId>> SchemaEmitter::TextsAt(const DemandSet& demands,
                                                    const std::vector<const base::Json*>& values,
                                                    const std::string& path) {
  TW_ASSIGN(const Symbol item, SymbolOf(demands));
  if (item.kind != Symbol::Kind::kRegex) return Refuse(path);
  std::vector<RegexId> texts;
  for (const base::Json* value : values) {
    TW_ASSIGN(const RegexId text, ValueText(*value, path));
    const RegexId both = regexes_.Both(text, item.id);
    const bool nothing = regexes_.IsNothing(both, kStatesLookedAt).value_or(false);
    texts.push_back(nothing ? kNothing : both);
  }
  return texts;
}

}  // namespace thalweg::grammar
