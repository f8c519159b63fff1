#include "grammar/schema_object.h"

#include <algorithm>
#include <unordered_map>

#include "grammar/schema_document.h"

namespace thalweg::grammar {
namespace {

constexpr size_t kMostKeyClasses = 64;
constexpr size_t kMostWitnesses = 4;
constexpr int64_t kStatesLookedAt = 256;

class Planner {
 public:
  Planner(const std::vector<const Schema*>& schemas, SchemaExpander* expander,
          SchemaContext* context)
      : schemas_(schemas), expander_(*expander), context_(*context), regexes_(context->regexes) {}

  Result<ObjectPlan> Plan() {
    TW_TRY(CollectKeyLanguages());
    CollectNames();
    for (const Schema* schema : schemas_) TW_TRY(AddValues(*schema));
    FinishProperties();
    TW_TRY(PlanOthers());
    TW_TRY(PlanCounts());
    return std::move(plan_);
  }

 private:
  struct Entry {
    std::string name;
    std::string text;  // as it is written between quotes
    std::vector<Demand> values;
    bool required = false;
    bool covered = false;  // by the schema that is looked at
  };
  struct KeyClass {
    std::vector<RegexId> parts;  // intersection
    std::vector<Demand> values;
    uint32_t witnesses = 0;
    bool covered = false;    // by the schema that is looked at
    bool spoken_of = false;  // by some keyword
  };

  const std::string& path() const { return schemas_.front()->path; }

  Status CollectKeyLanguages() {
    for (const Schema* schema : schemas_) {
      witnesses_.insert(witnesses_.end(), schema->some_keys.begin(), schema->some_keys.end());
      if (!schema->property_names) continue;
      TW_ASSIGN(key_languages_.emplace_back(),
                expander_.StringsOf(MakeDemandSet({*schema->property_names})));
    }
    if (witnesses_.size() > kMostWitnesses) {
      return SchemaUnsupported(path(), "not", "has too many keys of which one must be there");
    }
    return {};
  }

  Entry& EntryOf(const std::string& name) {
    const auto [known, fresh] = index_.try_emplace(name, entries_.size());
    if (fresh) {
      const std::string quoted = base::Json(name).dump();
      entries_.push_back({name, quoted.substr(1, quoted.size() - 2), {}, false, false});
    }
    return entries_[known->second];
  }

  void CollectNames() {
    for (const Schema* schema : schemas_) {
      for (const auto& property : schema->properties) EntryOf(property.first);
    }
    for (const Schema* schema : schemas_) {
      for (const std::string& name : schema->required) EntryOf(name).required = true;
    }
  }

  Status AddValues(const Schema& schema) {
    for (Entry& entry : entries_) entry.covered = false;
    for (const auto& [name, demand] : schema.properties) {
      Entry& entry = EntryOf(name);
      entry.values.push_back(demand);
      entry.covered = true;
    }
    if (schema.patterns.empty() && !schema.additional) return {};
    for (Entry& entry : entries_) {
      TW_TRY(context_.CheckLimits());
      AddOtherValues(schema, &entry);
    }
    return {};
  }

  void AddOtherValues(const Schema& schema, Entry* entry) {
    for (const PatternProperty& pattern : schema.patterns) {
      if (!regexes_.Matches(pattern.keys, entry->text)) continue;
      entry->values.push_back(pattern.values);
      entry->covered = true;
    }
    if (!entry->covered) entry->values.push_back(schema.additional.value_or(kAllowAll));
  }

  bool NameAllowed(const Entry& entry) {
    return std::all_of(key_languages_.begin(), key_languages_.end(),
                       [&](RegexId keys) { return regexes_.Matches(keys, entry.text); });
  }

  void FinishProperties() {
    for (Entry& entry : entries_) {
      DemandSet values = MakeDemandSet(std::move(entry.values));
      const bool never = (!values.empty() && values.front() == kAllowNone) || !NameAllowed(entry);
      plan_.impossible |= never && entry.required;
      if (never) continue;
      plan_.required += entry.required;
      uint32_t mask = 0;
      for (size_t i = 0; i < witnesses_.size(); ++i) {
        if (regexes_.Matches(witnesses_[i], entry.text)) mask |= uint32_t{1} << i;
      }
      plan_.properties.push_back({entry.name, std::move(values), entry.required, mask});
    }
    plan_.all_witnesses = (uint32_t{1} << witnesses_.size()) - 1;
  }

  Status Split(RegexId keys, std::vector<KeyClass>* classes,
               const std::function<void(KeyClass*)>& inside) {
    TW_TRY(context_.CheckLimits());
    const size_t count = classes->size();
    for (size_t i = 0; i < count; ++i) {
      KeyClass in = (*classes)[i];
      in.parts.push_back(keys);
      inside(&in);
      (*classes)[i].parts.push_back(regexes_.Not(keys));
      classes->push_back(std::move(in));
    }
    std::erase_if(*classes, [&](const KeyClass& one) {
      return regexes_.IsNothing(regexes_.Both(one.parts), kStatesLookedAt).value_or(false);
    });
    if (classes->size() <= kMostKeyClasses) return {};
    return SchemaUnsupported(path(), "patternProperties", "too many patterns overlap");
  }

  Status SplitBySchema(const Schema& schema, std::vector<KeyClass>* classes) {
    for (KeyClass& one : *classes) one.covered = false;
    for (const PatternProperty& pattern : schema.patterns) {
      TW_TRY(Split(pattern.keys, classes, [&](KeyClass* in) {
        in->values.push_back(pattern.values);
        in->covered = in->spoken_of = true;
      }));
    }
    if (!schema.additional) return {};
    for (KeyClass& one : *classes) {
      if (!one.covered) one.values.push_back(*schema.additional);
      one.spoken_of = true;
    }
    return {};
  }

  bool Closed() const {
    return context_.options.strict &&
           std::any_of(schemas_.begin(), schemas_.end(),
                       [](const Schema* schema) { return schema->describes_object; });
  }

  // Every key that is none of the entries.
  std::vector<RegexId> BaseParts() {
    std::vector<RegexId> names;
    for (const Entry& entry : entries_) {
      names.push_back(context_.languages.Text(entry.name));
    }
    std::vector<RegexId> parts = key_languages_;
    parts.push_back(context_.languages.AnyText());
    if (!names.empty()) parts.push_back(regexes_.Not(regexes_.Either(names)));
    return parts;
  }

  Status PlanOthers() {
    std::vector<KeyClass> classes(1);
    for (const Schema* schema : schemas_) TW_TRY(SplitBySchema(*schema, &classes));
    for (size_t i = 0; i < witnesses_.size(); ++i) {
      TW_TRY(
          Split(witnesses_[i], &classes, [&](KeyClass* in) { in->witnesses |= uint32_t{1} << i; }));
    }
    std::vector<RegexId> base;
    for (KeyClass& one : classes) {
      if (Closed() && !one.spoken_of) continue;
      DemandSet values = MakeDemandSet(std::move(one.values));
      if (!values.empty() && values.front() == kAllowNone) continue;
      if (base.empty()) base = BaseParts();
      one.parts.insert(one.parts.end(), base.begin(), base.end());
      AddOthers({regexes_.Both(one.parts), std::move(values), one.witnesses});
    }
    return {};
  }

  void AddOthers(ObjectPlan::OtherKeys added) {
    if (regexes_.IsNothing(added.keys, kStatesLookedAt).value_or(false)) return;
    for (ObjectPlan::OtherKeys& known : plan_.others) {
      if (known.values != added.values || known.witnesses != added.witnesses) continue;
      known.keys = regexes_.Either(known.keys, added.keys);
      return;
    }
    plan_.others.push_back(std::move(added));
  }

  // Keys that are not declared may be written twice, and count once: a second one must not be
  // what makes an object large enough.
  Status PlanCounts() {
    for (const Schema* schema : schemas_) {
      plan_.min = std::max(plan_.min, schema->min_properties);
      if (schema->max_properties < 0) continue;
      plan_.max =
          plan_.max < 0 ? schema->max_properties : std::min(plan_.max, schema->max_properties);
    }
    plan_.impossible |= plan_.max >= 0 && std::max(plan_.min, plan_.required) > plan_.max;
    if (plan_.max == plan_.required) Close();
    if (plan_.impossible || plan_.others.empty() || plan_.min <= plan_.required + 1) return {};
    return SchemaUnsupported(path(), "minProperties",
                             "can only be enforced where at most one key beyond the required ones "
                             "is needed, or with no other keys than those in properties");
  }

  void Close() {
    plan_.others.clear();
    std::erase_if(plan_.properties, [](const auto& property) { return !property.required; });
  }

  const std::vector<const Schema*>& schemas_;
  SchemaExpander& expander_;
  SchemaContext& context_;
  RegexArena& regexes_;
  ObjectPlan plan_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<RegexId> key_languages_;
  std::vector<RegexId> witnesses_;
};

}  // namespace

Result<ObjectPlan> PlanObject(const std::vector<const Schema*>& schemas, SchemaExpander* expander,
                              SchemaContext* context) {
  return Planner(schemas, expander, context).Plan();
}

}  // namespace thalweg::grammar
