#include "grammar/schema_deny.h"

#include <algorithm>

#include "grammar/schema_document.h"
#include "grammar/schema_number.h"

namespace thalweg::grammar {
namespace {

class Denier {
 public:
  Denier(const Schema& schema, SchemaContext* context) : schema_(schema), context_(*context) {}

  std::vector<Branch> Run() {
    if (schema_.types != kEveryType) Add(OfTypes(Without(kEveryType, schema_.types)));
    for (const Refusal& refusal : schema_.refusals) {
      Schema branch = OfTypes(refusal.types);
      branch.refusals = {refusal};
      Add(std::move(branch));
    }
    DenyLanguages();
    if ((schema_.types & kArrayType) != 0) DenyArrays();
    if ((schema_.types & kObjectType) != 0) DenyObjects();
    DenyCombinations();
    return std::move(branches_);
  }

 private:
  Schema OfTypes(TypeSet types) const {
    Schema branch;
    branch.path = schema_.path;
    branch.types = types;
    return branch;
  }
  Schema OfArrays() const { return OfTypes(kArrayType); }
  Schema OfObjects() const { return OfTypes(kObjectType); }
  void Add(Schema branch) { branches_.push_back({context_.table.Add(std::move(branch))}); }
  void Refuse(TypeSet types, std::string_view keyword) {
    Schema branch = OfTypes(types);
    branch.refusals = {{types, SchemaMessage(schema_.path, keyword,
                                             "cannot be negated (by not, oneOf, if or else)")}};
    Add(std::move(branch));
  }

  void DenyLanguages() {
    const TypeSet numbers = schema_.types & kNumberType;
    if (schema_.numbers != kAnything && numbers != 0) {
      Schema branch = OfTypes(numbers);
      branch.numbers = OtherNumbers(schema_.numbers, &context_.regexes);
      Add(std::move(branch));
    }
    if (schema_.strings != kAnything && (schema_.types & kStringType) != 0) {
      Schema branch = OfTypes(kStringType);
      branch.strings = OtherText(schema_.strings);
      Add(std::move(branch));
    }
    if ((schema_.types & kStringType) != 0) DenyLength();
  }

  // As lengths again, which cost nothing, and not as a complement, which is large.
  void DenyLength() {
    const Counts& length = schema_.length;
    if (length.least > 0) AddLength({0, length.least - 1});
    if (length.most >= 0 && length.most < INT32_MAX) AddLength({length.most + 1, -1});
  }

  void AddLength(const Counts& length) {
    Schema branch = OfTypes(kStringType);
    branch.length = length;
    Add(std::move(branch));
  }

  RegexId OtherText(RegexId text) { return context_.languages.OtherText(text); }

  void DenyArrays() {
    for (size_t i = 0; i < schema_.prefix.size(); ++i) {
      if (schema_.prefix[i] == kAllowAll) continue;
      Schema branch = OfArrays();
      branch.min_items = static_cast<int64_t>(i) + 1;
      branch.prefix.assign(i + 1, kAllowAll);
      branch.prefix[i] = Opposite(schema_.prefix[i]);
      Add(std::move(branch));
    }
    if (schema_.items && *schema_.items != kAllowAll) DenyItems();
    if (schema_.min_items > 0) {
      Schema branch = OfArrays();
      branch.max_items = schema_.min_items - 1;
      Add(std::move(branch));
    }
    if (schema_.max_items >= 0) {
      Schema branch = OfArrays();
      branch.min_items = schema_.max_items + 1;
      Add(std::move(branch));
    }
    if (schema_.contains) DenyContains(*schema_.contains);
    if (schema_.unique_items) Refuse(kArrayType, "uniqueItems");
  }

  void DenyItems() {
    Schema branch = OfArrays();
    const auto from = static_cast<int64_t>(schema_.prefix.size());
    if (*schema_.items == kAllowNone) {
      branch.min_items = from + 1;
    } else {
      branch.contains = ContainsRule{.items = Opposite(*schema_.items), .from = from};
    }
    Add(std::move(branch));
  }

  void DenyContains(const ContainsRule& rule) {
    if (rule.min > 0) {
      Schema branch = OfArrays();
      branch.contains = rule;
      branch.contains->min = 0;
      branch.contains->max = rule.min - 1;
      Add(std::move(branch));
    }
    if (rule.max < 0) return;
    Schema branch = OfArrays();
    branch.contains = rule;
    branch.contains->min = rule.max + 1;
    branch.contains->max = -1;
    Add(std::move(branch));
  }

  void DenyObjects() {
    for (const auto& [name, demand] : schema_.properties) {
      if (demand == kAllowAll) continue;
      Schema branch = OfObjects();
      branch.required = {name};
      branch.properties = {{name, Opposite(demand)}};
      Add(std::move(branch));
    }
    for (const std::string& name : schema_.required) {
      Schema branch = OfObjects();
      branch.properties = {{name, kAllowNone}};
      Add(std::move(branch));
    }
    DenyPropertyCounts();
    DenyKeys();
  }

  void DenyPropertyCounts() {
    if (schema_.min_properties > 0) {
      Schema branch = OfObjects();
      branch.max_properties = schema_.min_properties - 1;
      Add(std::move(branch));
    }
    if (schema_.max_properties < 0) return;
    // Objects without what is required are in another branch already.
    Schema branch = OfObjects();
    branch.required = schema_.required;
    branch.min_properties = schema_.max_properties + 1;
    Add(std::move(branch));
  }

  // That a key is there is certain however often it is there; that one of the values of a key
  // that is there twice counts is not. So only values that are never allowed can be denied.
  void DenyKeys() {
    RegexArena& regexes = context_.regexes;
    std::vector<RegexId> covered;
    for (const auto& [name, demand] : schema_.properties) {
      covered.push_back(context_.languages.Text(name));
    }
    for (const PatternProperty& pattern : schema_.patterns) {
      covered.push_back(pattern.keys);
      DenyValues(pattern.keys, pattern.values, "patternProperties");
    }
    if (schema_.additional) {
      DenyValues(OtherText(regexes.Either(covered)), *schema_.additional, "additionalProperties");
    }
    if (schema_.property_names) DenyNames(context_.table.of(*schema_.property_names));
    for (const RegexId keys : schema_.some_keys) {
      Schema branch = OfObjects();
      branch.patterns = {{keys, kAllowNone}};
      Add(std::move(branch));
    }
  }

  void DenyValues(RegexId keys, Demand values, std::string_view keyword) {
    if (values == kAllowAll) return;
    if (values != kAllowNone) return Refuse(kObjectType, keyword);
    Schema branch = OfObjects();
    branch.some_keys = {keys};
    Add(std::move(branch));
  }

  void DenyNames(const Schema& names) {
    const bool simple = *schema_.property_names % 2 == 0 && names.all_of.empty() &&
                        names.choices.empty() && names.one_of.empty() && names.refusals.empty();
    if (*schema_.property_names == kAllowNone) {
      Schema branch = OfObjects();
      branch.min_properties = 1;
      return Add(std::move(branch));
    }
    if (!simple || (names.types & kStringType) == 0) return Refuse(kObjectType, "propertyNames");
    if (names.strings == kAnything && names.length.any()) return;
    const RegexId allowed = context_.regexes.Both(
        names.strings, names.length.none() ? kNothing : context_.languages.OfLength(names.length));
    Schema branch = OfObjects();
    branch.some_keys = {OtherText(allowed)};
    Add(std::move(branch));
  }

  void DenyCombinations() {
    for (const Demand demand : schema_.all_of) branches_.push_back({Opposite(demand)});
    for (const std::vector<Branch>& choice : schema_.choices) {
      Schema branch = OfTypes(kEveryType);
      for (const Branch& demands : choice) branch.choices.push_back(AnyDenied(demands));
      Add(std::move(branch));
    }
    for (const std::vector<Demand>& demands : schema_.one_of) DenyOneOf(demands);
  }

  static std::vector<Branch> AnyDenied(const Branch& demands) {
    std::vector<Branch> denied;
    for (const Demand demand : demands) denied.push_back({Opposite(demand)});
    return denied;
  }

  // None of them, or two at least.
  void DenyOneOf(const std::vector<Demand>& demands) {
    if (demands.size() > kMostOneOf) return Refuse(kEveryType, "oneOf");
    Schema none = OfTypes(kEveryType);
    for (const Demand demand : demands) none.all_of.push_back(Opposite(demand));
    Add(std::move(none));
    for (size_t i = 0; i < demands.size(); ++i) {
      for (size_t j = 0; j < i; ++j) branches_.push_back({demands[j], demands[i]});
    }
  }

  const Schema& schema_;
  SchemaContext& context_;
  std::vector<Branch> branches_;
};

}  // namespace

std::vector<Branch> DenySchema(const Schema& schema, SchemaContext* context) {
  return Denier(schema, context).Run();
}

}  // namespace thalweg::grammar
