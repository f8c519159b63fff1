#include "grammar/schema_expand.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_document.h"

namespace thalweg::grammar {
namespace {

// Shapes in the making for one set of demands; beyond, the schema is refused.
constexpr int64_t kMostCombinations = 4096;
// Schemas in place in each other, $ref included.
constexpr int kMostInPlace = 512;
// Pairs of constants that are compared; beyond, their languages tell.
constexpr size_t kMostCompared = 4096;

// Whether two enumerations have no value in common for certain.
bool AreApart(const Schema& one, const Schema& other) {
  if (one.constants.size() * other.constants.size() > kMostCompared) return false;
  return std::none_of(one.constants.begin(), one.constants.end(), [&](const base::Json* value) {
    return std::any_of(other.constants.begin(), other.constants.end(),
                       [&](const base::Json* same) { return *same == *value; });
  });
}

}  // namespace

size_t SchemaExpander::HashSet::operator()(const DemandSet& set) const {
  size_t hash = set.size();
  for (const Demand demand : set) hash = hash * 0x9E3779B97F4A7C15u + static_cast<size_t>(demand);
  return hash;
}

Result<const std::vector<Shape>*> SchemaExpander::Expand(const DemandSet& demands) {
  const auto found = known_.find(demands);
  if (found != known_.end()) return found->second.get();
  const auto [entry, fresh] = in_progress_.insert(demands);
  if (!fresh) return base::Internal("schema: expanded within itself");
  Result<std::vector<Shape>> shapes = ExpandNew(demands);
  in_progress_.erase(demands);
  if (!shapes.ok()) return shapes.status();
  auto& kept = known_[demands];
  kept = std::make_unique<std::vector<Shape>>(std::move(shapes).value());
  return kept.get();
}

Result<std::vector<Shape>> SchemaExpander::ExpandNew(const DemandSet& demands) {
  std::vector<Draft> open(1);
  open.front().combined = demands.size() > 1;
  TW_TRY(ApplyAll(demands, &open.front(), 0));
  std::vector<Shape> shapes;
  for (int64_t count = 0; !open.empty(); ++count) {
    TW_TRY(context_.CheckLimits());
    if (count == kMostCombinations) {
      return SchemaUnsupported(context_.table.of(demands.front()).path, "anyOf, oneOf, not, if",
                               fmt::format("more than {} combinations", kMostCombinations));
    }
    Draft draft = std::move(open.back());
    open.pop_back();
    TW_TRY(draft.choices.empty() ? Finish(std::move(draft), &shapes)
                                 : Branchings(std::move(draft), &open));
  }
  return shapes;
}

// Makes the choice with the fewest branches, so that what is decided is known early.
Status SchemaExpander::Branchings(Draft draft, std::vector<Draft>* open) {
  const auto fewest =
      std::min_element(draft.choices.begin(), draft.choices.end(),
                       [](const Choice* a, const Choice* b) { return a->size() < b->size(); });
  const Choice& choice = **fewest;
  draft.choices.erase(fewest);
  draft.combined = true;
  for (auto branch = choice.rbegin(); branch != choice.rend(); ++branch) {
    Draft next = draft;
    TW_TRY(ApplyAll(*branch, &next, 0));
    DropContradictions(&next.shape);
    if (next.shape.types != 0) open->push_back(std::move(next));
  }
  return {};
}

Status SchemaExpander::ApplyAll(const std::vector<Demand>& demands, Draft* draft, int depth) {
  for (const Demand demand : demands) TW_TRY(Apply(demand, draft, depth));
  return {};
}

Status SchemaExpander::Apply(Demand demand, Draft* draft, int depth) {
  if (demand == kAllowAll) return {};
  if (depth > kMostInPlace) {
    return SchemaUnsupported(context_.table.of(demand).path, "$ref",
                             fmt::format("more than {} in a row", kMostInPlace));
  }
  const auto& applied = draft->applied;
  if (std::find(applied.begin(), applied.end(), demand) != applied.end()) return {};
  draft->applied.push_back(demand);
  if (demand == kAllowNone) draft->shape.types = 0;
  if (demand % 2 == 0) return ApplySchema(demand, draft, depth);
  if (demand != kAllowNone) draft->choices.push_back(&DenialOf(Opposite(demand)));
  return {};
}

Status SchemaExpander::ApplySchema(Demand demand, Draft* draft, int depth) {
  const Schema& schema = context_.table.of(demand);
  if (schema.own_properties_first) ApplyOwn(schema, draft);
  TW_TRY(ApplyAll(schema.all_of, draft, depth + 1));
  if (!schema.own_properties_first) ApplyOwn(schema, draft);
  for (const Choice& choice : schema.choices) draft->choices.push_back(&choice);
  for (size_t i = 0; i < schema.one_of.size(); ++i) draft->choices.push_back(&OneOf(demand, i));
  return {};
}

void SchemaExpander::ApplyOwn(const Schema& schema, Draft* draft) {
  Shape& shape = draft->shape;
  shape.types &= schema.types;
  shape.refusals.insert(shape.refusals.end(), schema.refusals.begin(), schema.refusals.end());
  if (schema.numbers != kAnything) {
    shape.numbers = context_.regexes.Both(shape.numbers, schema.numbers);
    shape.integral |= schema.integral;
  }
  if (schema.strings != kAnything) {
    shape.strings = context_.regexes.Both(shape.strings, schema.strings);
  }
  shape.length.Meet(schema.length);
  if (schema.enumerates) {
    if (shape.enumeration != nullptr && AreApart(*shape.enumeration, schema)) shape.types = 0;
    shape.enumeration = &schema;
  }
  if (schema.HasArrayPart()) shape.arrays.push_back(&schema);
  if (schema.HasObjectPart()) shape.objects.push_back(&schema);
}

Status SchemaExpander::Finish(Draft draft, std::vector<Shape>* shapes) {
  Shape& shape = draft.shape;
  DropContradictions(&shape);
  if ((shape.types & kStringType) != 0 && !shape.length.any()) {
    shape.strings = context_.regexes.Both(shape.strings, context_.languages.OfLength(shape.length));
  }
  shape.length = {};
  if (draft.combined) DropEmpty(&shape);
  if (shape.types == 0) return {};
  for (const Refusal& refusal : shape.refusals) {
    if ((refusal.types & shape.types) != 0) return base::Unsupported(refusal.message);
  }
  shape.refusals.clear();
  if ((shape.types & kArrayType) == 0) shape.arrays.clear();
  if ((shape.types & kObjectType) == 0) shape.objects.clear();
  const bool known = std::find(shapes->begin(), shapes->end(), shape) != shapes->end();
  if (!known) shapes->push_back(std::move(shape));
  return {};
}

Result<RegexId> SchemaExpander::StringsOf(const DemandSet& demands) {
  TW_ASSIGN(const std::vector<Shape>* shapes, Expand(demands));
  std::vector<RegexId> languages;
  for (const Shape& shape : *shapes) {
    if ((shape.types & kStringType) == 0) continue;
    languages.push_back(shape.strings == kAnything ? context_.languages.AnyText() : shape.strings);
  }
  return context_.regexes.Either(languages);
}

}  // namespace thalweg::grammar
