// Demands to symbols of rules: the last step of compiling a schema.
#pragma once

#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "grammar/schema_array.h"
#include "grammar/schema_context.h"
#include "grammar/schema_expand.h"
#include "grammar/schema_list.h"
#include "grammar/schema_object.h"

namespace thalweg::grammar {

class SchemaEmitter {
 public:
  SchemaEmitter(SchemaContext* context, SchemaExpander* expander);

  // The text of a value that meets the demands. Rules it names are written by Finish.
  Result<Symbol> SymbolOf(const DemandSet& demands);
  Status Finish();

 private:
  using SchemaList = std::vector<const Schema*>;

  Result<RegexId> ScalarsOf(const Shape& shape);
  Result<RegexId> NumbersOf(const Shape& shape);
  Symbol ObjectSymbol(const SchemaList& schemas);
  Symbol ArraySymbol(const SchemaList& schemas);

  Status WriteObject(const SchemaList& schemas, int32_t rule);
  Status WriteOrdered(const ObjectPlan& plan, int32_t rule);
  Status WriteMap(const ObjectPlan& plan, int32_t rule);
  Status WriteCounted(const ObjectPlan& plan, const std::string& path, int32_t rule);
  Result<std::vector<ListElement>> OtherElements(const ObjectPlan& plan);
  Result<ListElement> PropertyElement(const ObjectPlan::Property& property);
  RegexId KeyLead(RegexId key);
  void AddNonEmpty(int32_t rule, std::vector<Symbol> inside);

  Status WriteArray(const SchemaList& schemas, int32_t rule);
  Status WriteItems(const ArrayPlan& plan, int32_t rule);
  Status WriteContaining(const ArrayPlan& plan, const std::string& path, int32_t rule);
  Status WriteUnique(const ArrayPlan& plan, const std::string& path, int32_t rule);
  Result<Symbol> ItemSymbol(const ArrayPlan& plan, int64_t index,
                            const std::vector<Demand>& more = {});
  Symbol RepeatItems(Symbol item, int64_t least, int64_t most);
  Result<std::vector<const base::Json*>> DistinctValues(const ArrayPlan& plan,
                                                        const std::string& path);
  Status AddDistinct(const Shape& shape, const std::string& path,
                     std::vector<const base::Json*>* values);
  Result<std::vector<RegexId>> TextsAt(const DemandSet& demands,
                                       const std::vector<const base::Json*>& values,
                                       const std::string& path);

  Result<RegexId> ValueText(const base::Json& value, const std::string& path);

  SchemaContext& context_;
  SchemaExpander& expander_;
  Rules& rules_;
  RegexArena& regexes_;
  RegexId colon_ = kNothing;
  RegexId quote_ = kNothing;
  ListFrame object_frame_ = {};
  ListFrame array_frame_ = {};
  std::map<DemandSet, Symbol> known_;
  std::map<SchemaList, int32_t> objects_, arrays_;
  struct Pending {
    bool object;
    const SchemaList* schemas;
    int32_t rule;
  };
  std::deque<Pending> pending_;
};

}  // namespace thalweg::grammar
