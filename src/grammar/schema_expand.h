// Demands to shapes: what keywords that combine schemas (allOf, anyOf, oneOf, not, if, $ref, ...)
// mean, worked out until only keywords about one type are left.
//
// A set of demands is expanded to a union of shapes, a shape being what several schemas say
// together. Children (of properties, items, ...) stay demands: they are expanded when they are
// reached, so recursion is no matter. There are finitely many schemas, hence finitely many sets.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "grammar/schema_context.h"
#include "grammar/schema_model.h"

namespace thalweg::grammar {

struct Shape {
  TypeSet types = kEveryType;
  bool integral = false;  // `numbers` has integers only
  RegexId numbers = kAnything;
  RegexId strings = kAnything;
  Counts length = {};  // of strings; in a finished shape `strings` has it
  // Schemas that have a say in arrays, or objects, in the order in which they are written.
  std::vector<const Schema*> arrays = {};
  std::vector<const Schema*> objects = {};
  const Schema* enumeration = nullptr;  // one whose constants cover every value
  std::vector<Refusal> refusals = {};
  bool operator==(const Shape&) const = default;
};

class SchemaExpander {
 public:
  explicit SchemaExpander(SchemaContext* context) : context_(*context) {}

  // An error where a schema refers to itself with nothing in between.
  Status CheckCycles() const;
  // The shapes stay where they are. No shape: no value meets the demands.
  Result<const std::vector<Shape>*> Expand(const DemandSet& demands);
  // What every branch of the result stands for: the schema does not hold. Computed once.
  const std::vector<Branch>& DenialOf(Demand schema);
  // The text between the quotes of the strings that meet a demand.
  Result<RegexId> StringsOf(const DemandSet& demands);

 private:
  using Choice = std::vector<Branch>;
  // A shape in the making.
  struct Draft {
    Shape shape = {};
    std::vector<const Choice*> choices = {};  // still to be made
    std::vector<Demand> applied = {};
    bool combined = false;  // of several schemas: contradictions are worth a look
  };
  struct HashSet {
    size_t operator()(const DemandSet& set) const;
  };

  Result<std::vector<Shape>> ExpandNew(const DemandSet& demands);
  Status Apply(Demand demand, Draft* draft, int depth);
  Status ApplySchema(Demand demand, Draft* draft, int depth);
  void ApplyOwn(const Schema& schema, Draft* draft);
  Status ApplyAll(const std::vector<Demand>& demands, Draft* draft, int depth);
  Status Branchings(Draft draft, std::vector<Draft>* open);
  Status Finish(Draft draft, std::vector<Shape>* shapes);

  // Drops types of which the shape has no value for certain. The second looks at children.
  void DropContradictions(Shape* shape) const;
  void DropEmpty(Shape* shape);
  bool HasEmptyProperty(const Shape& shape);
  bool HasEmptyItem(const Shape& shape);
  bool IsEmpty(DemandSet demands);

  const Choice& OneOf(Demand schema, size_t index);
  bool AreScalarsApart(const std::vector<Demand>& demands, Demand beside);
  bool IsApart(const Shape& shape, Shape* before);
  Choice RefuseOneOf(const std::string& path);
  Choice MakeOneOf(const std::vector<Demand>& demands, Demand beside);

  SchemaContext& context_;
  std::unordered_map<DemandSet, std::unique_ptr<std::vector<Shape>>, HashSet> known_;
  std::set<DemandSet> in_progress_;
  std::unordered_map<Demand, Choice> denials_;
  std::unordered_map<Demand, std::vector<std::unique_ptr<Choice>>> one_of_;
};

}  // namespace thalweg::grammar
