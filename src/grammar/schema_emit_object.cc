// Objects to rules.
#include <algorithm>
#include <array>

#include "grammar/schema_document.h"
#include "grammar/schema_emit.h"

namespace thalweg::grammar {
namespace {

// Properties in any order are told apart by the set that has been written.
constexpr size_t kMostUnordered = 8;
constexpr int64_t kMostStates = 4096;

// Properties in order, without counting.
bool NeedsCounting(const ObjectPlan& plan) {
  const auto properties = static_cast<int64_t>(plan.properties.size());
  const bool max_matters = plan.max >= 0 && (!plan.others.empty() || properties > plan.max);
  return max_matters || plan.min > std::max<int64_t>(plan.required, 1) || plan.all_witnesses != 0;
}

std::string EscapedKey(const std::string& name) { return base::Json(name).dump(); }

// Members in order, one after the other.
class OrderedMembers {
 public:
  OrderedMembers(const ListFrame& frame, Rules* rules) : frame_(frame), rules_(*rules) {}

  bool may_be_empty() const { return empty_; }
  // The rule of what has been written, which is something.
  int32_t last() const { return last_; }

  void Add(const std::vector<ListElement>& run, bool required) {
    const int32_t reached = rules_.NewRule("members");
    if (empty_) rules_.AddAlternative(reached, Symbols(run, true));
    if (last_ >= 0) AddAfter(last_, run, reached);
    if (last_ >= 0 && !required) rules_.AddAlternative(reached, {Rules::Of(last_)});
    empty_ &= !required;
    last_ = reached;
  }

  // Keys that are not declared, as many as there may be.
  void AddOthers(const std::vector<ListElement>& others) {
    if (others.empty()) return;
    const int32_t reached = rules_.NewRule("members");
    rules_.AddAlternative(reached, {Rules::Of(last_)});
    for (const ListElement& element : others) {
      if (empty_) rules_.AddAlternative(reached, Symbols({element}, true));
      AddAfter(reached, {element}, reached);
    }
    last_ = reached;
  }

 private:
  std::vector<Symbol> Symbols(const std::vector<ListElement>& run, bool first) {
    std::vector<Symbol> symbols;
    for (const ListElement& element : run) {
      AppendElement(element, frame_, first && symbols.empty(), &rules_.regexes(), &symbols);
    }
    return symbols;
  }

  void AddAfter(int32_t before, const std::vector<ListElement>& run, int32_t reached) {
    std::vector<Symbol> symbols = Symbols(run, false);
    symbols.insert(symbols.begin(), Rules::Of(before));
    rules_.AddAlternative(reached, std::move(symbols));
  }

  const ListFrame& frame_;
  Rules& rules_;
  bool empty_ = true;  // or nothing has been written
  int32_t last_ = -1;
};

}  // namespace

Status SchemaEmitter::WriteObject(const SchemaList& schemas, int32_t rule) {
  TW_ASSIGN(const ObjectPlan plan, PlanObject(schemas, &expander_, &context_));
  if (plan.impossible) return {};
  const std::string path = schemas.empty() ? "" : schemas.front()->path;
  if (plan.properties.empty() && plan.all_witnesses == 0) return WriteMap(plan, rule);
  if (NeedsCounting(plan) || context_.options.any_order) return WriteCounted(plan, path, rule);
  return WriteOrdered(plan, rule);
}

RegexId SchemaEmitter::KeyLead(RegexId key) {
  return regexes_.Concat(std::array{quote_, key, quote_, colon_});
}

Result<ListElement> SchemaEmitter::PropertyElement(const ObjectPlan::Property& property) {
  ListElement element;
  element.lead = regexes_.Concat(regexes_.Literal(EscapedKey(property.name)), colon_);
  TW_ASSIGN(element.value, SymbolOf(property.values));
  return element;
}

Result<std::vector<ListElement>> SchemaEmitter::OtherElements(const ObjectPlan& plan) {
  std::vector<ListElement> elements;
  for (const ObjectPlan::OtherKeys& others : plan.others) {
    TW_ASSIGN(const Symbol value, SymbolOf(others.values));
    elements.push_back({KeyLead(others.keys), value});
  }
  return elements;
}

void SchemaEmitter::AddNonEmpty(int32_t rule, std::vector<Symbol> inside) {
  inside.insert(inside.begin(), Rules::Regex(object_frame_.open));
  inside.push_back(Rules::Regex(object_frame_.close));
  rules_.AddAlternative(rule, std::move(inside));
}

// Keys that are not declared, and no others.
Status SchemaEmitter::WriteMap(const ObjectPlan& plan, int32_t rule) {
  TW_ASSIGN(const std::vector<ListElement> elements, OtherElements(plan));
  if (plan.min == 0) rules_.AddAlternative(rule, {Rules::Regex(object_frame_.empty)});
  if (plan.max == 0) return {};
  std::vector<Symbol> members;
  for (const ListElement& element : elements) {
    if (element.value == Rules::Regex(kNothing)) continue;
    const int32_t member = rules_.NewRule("member");
    rules_.AddAlternative(member, {Rules::Regex(element.lead), element.value});
    members.push_back(Rules::Of(member));
  }
  const Symbol separator = Rules::Regex(object_frame_.separator);
  AddNonEmpty(rule, {rules_.Repeat(rules_.Choice(members, "member"), 1, plan.max, &separator)});
  return {};
}

// One rule for each property that may be left out and for each run of those that may not: what
// has been written up to it, and is not empty.
Status SchemaEmitter::WriteOrdered(const ObjectPlan& plan, int32_t rule) {
  OrderedMembers members(object_frame_, &rules_);
  const auto& properties = plan.properties;
  for (size_t i = 0; i < properties.size();) {
    const bool required = properties[i].required;
    std::vector<ListElement> run;
    do {
      TW_ASSIGN(run.emplace_back(), PropertyElement(properties[i]));
      ++i;
    } while (required && i < properties.size() && properties[i].required);
    members.Add(run, required);
  }
  TW_ASSIGN(const std::vector<ListElement> others, OtherElements(plan));
  members.AddOthers(others);
  if (members.may_be_empty() && plan.min == 0) {
    rules_.AddAlternative(rule, {Rules::Regex(object_frame_.empty)});
  }
  AddNonEmpty(rule, {Rules::Of(members.last())});
  return {};
}

namespace {

// A state of a counted object: what has been written, how many keys, which witnesses are there.
// In any order the first is a set of properties, otherwise the index of the next one.
struct Progress {
  int64_t written = 0, keys = 0, witnesses = 0;

  static Progress Of(const ListState& state) { return {state[0], state[1], state[2]}; }
  ListState AsState() const { return {written, keys, witnesses}; }
};

class CountedObject {
 public:
  CountedObject(const ObjectPlan& plan, bool any_order) : plan_(plan), any_order_(any_order) {}

  bool Accepts(const Progress& at) const {
    if (at.keys < plan_.min || at.witnesses != plan_.all_witnesses) return false;
    for (size_t i = 0; i < plan_.properties.size(); ++i) {
      if (plan_.properties[i].required && Open(at, i)) return false;
    }
    return true;
  }
  // Whether property i may come next.
  bool MayFollow(const Progress& at, size_t i) const {
    if (Full(at) || !Open(at, i)) return false;
    return any_order_ || !SkipsRequired(at, i);
  }
  bool OthersMayFollow(const Progress& at) const {
    return !Full(at) && (any_order_ || !SkipsRequired(at, plan_.properties.size()));
  }
  Progress After(const Progress& at, size_t i) const {
    Progress next = Counted(at, plan_.properties[i].witnesses);
    const auto index = static_cast<int64_t>(i);
    next.written = any_order_ ? at.written | int64_t{1} << i : index + 1;
    return next;
  }
  Progress AfterOther(const Progress& at, uint32_t witnesses) const {
    Progress next = Counted(at, witnesses);
    if (!any_order_) next.written = static_cast<int64_t>(plan_.properties.size());
    return next;
  }

 private:
  bool Full(const Progress& at) const { return plan_.max >= 0 && at.keys >= plan_.max; }
  bool Open(const Progress& at, size_t i) const {
    if (any_order_) return (at.written >> i & 1) == 0;
    return static_cast<int64_t>(i) >= at.written;
  }
  bool SkipsRequired(const Progress& at, size_t end) const {
    for (auto i = static_cast<size_t>(at.written); i < end; ++i) {
      if (plan_.properties[i].required) return true;
    }
    return false;
  }
  // Counts beyond the largest that matters are one.
  Progress Counted(const Progress& at, uint32_t witnesses) const {
    const int64_t most = plan_.max >= 0 ? plan_.max : std::max<int64_t>(plan_.min, 1);
    return {at.written, std::min(at.keys + 1, most), at.witnesses | witnesses};
  }

  const ObjectPlan& plan_;
  bool any_order_;
};

}  // namespace

Status SchemaEmitter::WriteCounted(const ObjectPlan& plan, const std::string& path, int32_t rule) {
  const bool any_order = context_.options.any_order;
  if (any_order && plan.properties.size() > kMostUnordered) {
    return SchemaUnsupported(path, "properties", "more than 8 cannot be had in any order");
  }
  std::vector<ListElement> properties;
  for (const ObjectPlan::Property& property : plan.properties) {
    TW_ASSIGN(properties.emplace_back(), PropertyElement(property));
  }
  TW_ASSIGN(const std::vector<ListElement> others, OtherElements(plan));
  const CountedObject object(plan, any_order);
  ListSpec spec;
  spec.start = Progress().AsState();
  spec.accepts = [&](const ListState& state) { return object.Accepts(Progress::Of(state)); };
  spec.moves = [&](const ListState& state) -> Result<std::vector<ListMove>> {
    const Progress at = Progress::Of(state);
    std::vector<ListMove> moves;
    for (size_t i = 0; i < properties.size(); ++i) {
      if (!object.MayFollow(at, i)) continue;
      moves.push_back({properties[i], object.After(at, i).AsState()});
    }
    for (size_t i = 0; i < others.size() && object.OthersMayFollow(at); ++i) {
      moves.push_back({others[i], object.AfterOther(at, plan.others[i].witnesses).AsState()});
    }
    return moves;
  };
  const Status written = AddList(spec, object_frame_, kMostStates, rule, &context_);
  if (written.code() != base::Code::kUnsupported) return written;
  return SchemaUnsupported(path, "minProperties, maxProperties", written.message());
}

}  // namespace thalweg::grammar
