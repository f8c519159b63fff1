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
  int32_t last = -1;  // the rule before
  bool fresh = true;  // or nothing has been written yet
  const auto start = [&](const std::vector<Symbol>& run_first, const std::vector<Symbol>& run_next,
                         int32_t reached) {
    if (fresh) rules_.AddAlternative(reached, run_first);
    if (last < 0) return;
    std::vector<Symbol> symbols = {Rules::Of(last)};
    symbols.insert(symbols.end(), run_next.begin(), run_next.end());
    rules_.AddAlternative(reached, std::move(symbols));
  };
  for (size_t i = 0; i < plan.properties.size();) {
    const bool required = plan.properties[i].required;
    std::vector<Symbol> run_first, run_next;
    do {
      TW_ASSIGN(const ListElement element, PropertyElement(plan.properties[i]));
      AppendElement(element, object_frame_, run_first.empty(), &regexes_, &run_first);
      AppendElement(element, object_frame_, false, &regexes_, &run_next);
      ++i;
    } while (required && i < plan.properties.size() && plan.properties[i].required);
    const int32_t reached = rules_.NewRule("members");
    start(run_first, run_next, reached);
    if (!required && last >= 0) rules_.AddAlternative(reached, {Rules::Of(last)});
    if (required) fresh = false;
    last = reached;
  }
  TW_ASSIGN(const std::vector<ListElement> others, OtherElements(plan));
  if (!others.empty()) {
    const int32_t reached = rules_.NewRule("members");
    rules_.AddAlternative(reached, {Rules::Of(last)});
    for (const ListElement& element : others) {
      std::vector<Symbol> first, next = {Rules::Of(reached)};
      AppendElement(element, object_frame_, true, &regexes_, &first);
      AppendElement(element, object_frame_, false, &regexes_, &next);
      if (fresh) rules_.AddAlternative(reached, std::move(first));
      rules_.AddAlternative(reached, std::move(next));
    }
    last = reached;
  }
  if (fresh && plan.min == 0) rules_.AddAlternative(rule, {Rules::Regex(object_frame_.empty)});
  AddNonEmpty(rule, {Rules::Of(last)});
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
