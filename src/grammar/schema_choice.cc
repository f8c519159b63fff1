// oneOf as branches of which at most one holds, denials, and references that lead nowhere.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_deny.h"
#include "grammar/schema_document.h"
#include "grammar/schema_expand.h"

namespace thalweg::grammar {
namespace {

constexpr int64_t kStatesLookedAt = 256;

// Schemas that apply to the same value as `schema` does.
std::vector<Demand> InPlace(const Schema& schema) {
  std::vector<Demand> found = schema.all_of;
  for (const auto& choice : schema.choices) {
    for (const Branch& branch : choice) found.insert(found.end(), branch.begin(), branch.end());
  }
  for (const auto& demands : schema.one_of) {
    found.insert(found.end(), demands.begin(), demands.end());
  }
  return found;
}

// Looks for a way from a schema to itself that stays with the same value, depth first.
class CycleFinder {
 public:
  explicit CycleFinder(const SchemaTable& table)
      : table_(table), states_(static_cast<size_t>(table.size()), kNew) {}

  Status Run() {
    for (Demand start = 0; start < 2 * table_.size(); start += 2) {
      if (StateOf(start) == kNew) Enter(start);
      while (!path_.empty()) TW_TRY(Advance());
    }
    return {};
  }

 private:
  enum State : uint8_t { kNew, kOpen, kDone };
  struct Step {
    Demand demand;
    std::vector<Demand> left;
  };

  State& StateOf(Demand demand) { return states_[static_cast<size_t>(demand >> 1)]; }

  void Enter(Demand demand) {
    StateOf(demand) = kOpen;
    path_.push_back({demand, InPlace(table_.of(demand))});
  }

  Status Advance() {
    Step& step = path_.back();
    if (step.left.empty()) {
      StateOf(step.demand) = kDone;
      path_.pop_back();
      return {};
    }
    const Demand next = step.left.back();
    step.left.pop_back();
    if (StateOf(next) == kOpen) {
      return SchemaError(table_.of(next).path, "$ref",
                         "leads back to itself without a property or an item in between");
    }
    if (StateOf(next) == kNew) Enter(next);
    return {};
  }

  const SchemaTable& table_;
  std::vector<State> states_;
  std::vector<Step> path_;
};

}  // namespace

const std::vector<Branch>& SchemaExpander::DenialOf(Demand schema) {
  const auto found = denials_.find(schema);
  if (found != denials_.end()) return found->second;
  return denials_[schema] = DenySchema(context_.table.of(schema), &context_);
}

const SchemaExpander::Choice& SchemaExpander::OneOf(Demand demand, size_t index) {
  const Schema& schema = context_.table.of(demand);
  auto& known = one_of_[demand];
  known.resize(schema.one_of.size());
  if (known[index] == nullptr) {
    // What stands beside the oneOf may be what keeps its schemas apart.
    Schema beside = schema;
    beside.one_of.clear();
    beside.choices.clear();
    beside.refusals.clear();
    const Demand own = context_.table.Add(std::move(beside));
    auto made = std::make_unique<Choice>(MakeOneOf(schema.one_of[index], own));
    // In the meantime a schema that is looked at may have asked for the same.
    one_of_[demand][index] = std::move(made);
  }
  return *one_of_[demand][index];
}

// The cheap case of many constants: each is compared with all before it at once.
bool SchemaExpander::AreScalarsApart(const std::vector<Demand>& demands, Demand beside) {
  Shape before{.types = 0, .numbers = kNothing, .strings = kNothing};
  for (const Demand demand : demands) {
    const Result<const std::vector<Shape>*> shapes = Expand(MakeDemandSet({beside, demand}));
    if (!shapes.ok() || shapes.value()->size() > 1) return false;
    for (const Shape& shape : *shapes.value()) {
      if (!IsApart(shape, &before)) return false;
    }
  }
  return true;
}

// Adds `shape` to `before` where they have no value in common for certain.
bool SchemaExpander::IsApart(const Shape& shape, Shape* before) {
  if ((shape.types & (kArrayType | kObjectType)) != 0) return false;
  const TypeSet common = shape.types & before->types;
  if ((common & (kNullType | kBooleanType)) != 0) return false;
  const auto apart = [&](TypeSet types, RegexId language, RegexId* known) {
    if ((shape.types & types) == 0) return true;
    RegexArena& regexes = context_.regexes;
    const bool meet =
        (common & types) != 0 &&
        !regexes.IsNothing(regexes.Both(language, *known), kStatesLookedAt).value_or(false);
    *known = regexes.Either(language, *known);
    return !meet;
  };
  if (!apart(kStringType, shape.strings, &before->strings)) return false;
  if (!apart(kNumberType, shape.numbers, &before->numbers)) return false;
  before->types |= shape.types;
  return true;
}

std::vector<Branch> SchemaExpander::RefuseOneOf(const std::string& path) {
  Schema refused;
  refused.path = path;
  refused.refusals = {
      {kEveryType,
       SchemaMessage(path, "oneOf", "has too many schemas that may overlap; use anyOf")}};
  return {{context_.table.Add(std::move(refused))}};
}

// Of each, the others denied that may hold at the same time.
std::vector<Branch> SchemaExpander::MakeOneOf(const std::vector<Demand>& demands, Demand beside) {
  Choice branches;
  for (const Demand demand : demands) branches.push_back({demand});
  if (AreScalarsApart(demands, beside)) return branches;
  if (demands.size() > kMostOneOf) return RefuseOneOf(context_.table.of(beside).path);
  for (size_t i = 0; i < demands.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const TypeSet common =
          context_.table.of(demands[i]).types & context_.table.of(demands[j]).types;
      if (common == 0) continue;
      if (IsEmpty(MakeDemandSet({beside, demands[i], demands[j]}))) continue;
      branches[i].push_back(Opposite(demands[j]));
      branches[j].push_back(Opposite(demands[i]));
    }
  }
  return branches;
}

Status SchemaExpander::CheckCycles() const { return CycleFinder(context_.table).Run(); }

}  // namespace thalweg::grammar
