// The text of a schema, as JSON, to the table of schemas. Only what the root reaches is looked at.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/number_range.h"
#include "grammar/schema_context.h"
#include "grammar/schema_document.h"
#include "grammar/schema_model.h"

namespace thalweg::grammar {

class SchemaParser {
 public:
  SchemaParser(const SchemaDocument& document, SchemaContext* context);
  // The demand to be valid against the document's root.
  Result<Demand> Parse();

 private:
  // One schema that is being read.
  struct Site {
    const SchemaPlace& place;
    const base::Json& json;
    Schema& schema;

    const base::Json* Find(const char* keyword) const;
    Status Wrong(std::string_view keyword, std::string_view problem) const;
    Status Refuse(std::string_view keyword, std::string_view problem) const;
  };

  // The demand of a subschema; reads it later, unless it is true or false.
  Result<Demand> DemandOf(const SchemaPlace& place);
  Result<Demand> Child(const Site& site, std::string_view steps, const base::Json& json);
  // That of `keyword`, or nothing.
  Result<std::optional<Demand>> ChildOf(const Site& site, const char* keyword);
  Result<std::vector<Demand>> ChildrenOf(const Site& site, const char* keyword);
  Status Read(const SchemaPlace& place, Demand demand);

  Status ReadReferences(const Site& site);  // $ref, $dynamicRef, $recursiveRef
  Status ReadDynamicReference(const Site& site);
  Status AddReference(const Site& site, const char* keyword);
  Status ReadCombinations(const Site& site);  // allOf, anyOf, oneOf, not
  Status ReadCondition(const Site& site);     // if, then, else
  Status ReadUnevaluated(const Site& site);

  Status ReadTypes(const Site& site);  // type
  Status ReadEnum(const Site& site);   // enum, const
  Status AddConstants(const Site& site, std::vector<const base::Json*> values,
                      std::string_view keyword);
  // The demand to be one of the values, which have no structure; to be equal to a value.
  Result<Demand> ScalarDemand(const Site& site, const std::vector<const base::Json*>& values,
                              std::string_view keyword);
  Result<Demand> ConstantDemand(const Site& site, const base::Json& value,
                                std::string_view keyword);

  Status ReadNumbers(const Site& site);  // minimum, ..., multipleOf
  Status ReadBounds(const Site& site, NumberBounds* bounds);
  Status ReadExclusiveFlag(const Site& site, const char* keyword, std::optional<std::string>* bound,
                           std::optional<std::string>* exclusive);
  Result<RegexId> NumbersWithin(const Site& site, const NumberBounds& bounds);
  Status ReadStrings(const Site& site);  // pattern, format, minLength, maxLength
  Status ReadPattern(const Site& site);
  Status ReadFormat(const Site& site);
  Status ReadLength(const Site& site);

  Status ReadItems(const Site& site);  // prefixItems, items, additionalItems
  Status ReadArrays(const Site& site);
  Status ReadContains(const Site& site);
  Status ReadObjects(const Site& site);
  Status ReadProperties(const Site& site);
  Status ReadPatterns(const Site& site);
  Status ReadDependencies(const Site& site, const char* keyword);
  Status AddDependency(const Site& site, const std::string& steps, const std::string& key,
                       const base::Json& value);

  // A count of at least 0, or `absent`.
  Result<int64_t> CountOf(const Site& site, const char* keyword, int64_t absent);
  // Likewise; an error where it is beyond what a text can be made to have.
  Result<int64_t> LeastOf(const Site& site, const char* keyword, int64_t absent = 0);
  Result<std::vector<std::string>> NamesOf(const Site& site, const base::Json& list,
                                           std::string_view keyword);

  struct Pending {
    SchemaPlace place;
    Demand demand;
  };

  const SchemaDocument& document_;
  SchemaContext& context_;
  std::unordered_map<const base::Json*, Demand> demands_;
  std::deque<Pending> pending_;
};

}  // namespace thalweg::grammar
