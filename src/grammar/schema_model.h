// JSON Schema as this room understands it: one struct per schema, with children as demands.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "grammar/regex_arena.h"

namespace thalweg::grammar {

// A set of kinds of value. Integers are numbers whose value is one (1.0 too), and fractions the
// other numbers; the two booleans are apart because constants tell them apart.
using TypeSet = uint8_t;
inline constexpr TypeSet kNullType = 1, kFalseType = 2, kTrueType = 4, kIntegerType = 8;
inline constexpr TypeSet kFractionType = 16, kStringType = 32, kArrayType = 64, kObjectType = 128;
inline constexpr TypeSet kNumberType = kIntegerType | kFractionType;
inline constexpr TypeSet kBooleanType = kFalseType | kTrueType;
inline constexpr TypeSet kEveryType = 255;

inline TypeSet Without(TypeSet all, TypeSet removed) {
  return static_cast<TypeSet>(all & ~removed);
}

// What a value must meet: 2 * i, to be valid against schema i of the table; 2 * i + 1, not to be.
// Schema 0 is `true`.
using Demand = int32_t;
inline constexpr Demand kAllowAll = 0;
inline constexpr Demand kAllowNone = 1;
inline Demand Opposite(Demand demand) { return demand ^ 1; }

// Sorted, without duplicates, without kAllowAll; {kAllowNone} alone where that is one of them.
using DemandSet = std::vector<Demand>;
DemandSet MakeDemandSet(std::vector<Demand> demands);

// A use of a keyword that cannot be enforced exactly: an error where values of `types` remain.
struct Refusal {
  TypeSet types = kEveryType;
  std::string message = {};
  bool operator==(const Refusal&) const = default;
};

// How many there may be; several bounds together are the tightest.
struct Counts {
  int64_t least = 0;
  int64_t most = -1;  // < 0: without limit

  bool none() const { return most >= 0 && least > most; }
  bool any() const { return least == 0 && most < 0; }
  void Meet(const Counts& other);
  bool operator==(const Counts&) const = default;
};

struct PatternProperty {
  RegexId keys = kNothing;  // in the encoding of JSON strings, between the quotes
  Demand values = kAllowAll;
};

struct ContainsRule {
  Demand items = kAllowAll;
  int64_t from = 0;  // items before this index do not count
  int64_t min = 1;
  int64_t max = -1;  // < 0: without limit
};

// One of the schemas of a oneOf, or of another keyword that chooses: every demand holds.
using Branch = std::vector<Demand>;

// Every member restricts; all of them hold together. Members for one type leave others alone.
struct Schema {
  std::string path = {};  // JSON pointer, for messages
  TypeSet types = kEveryType;
  std::vector<Refusal> refusals = {};

  // Languages of the text of a number, and of the text between the quotes of a string.
  RegexId numbers = kAnything;
  RegexId strings = kAnything;
  bool integral = false;  // `numbers` has integers only
  Counts length = {};     // of strings, in characters

  // Arrays. Items beyond the prefix meet `items`.
  std::vector<Demand> prefix = {};
  std::optional<Demand> items = {};
  int64_t min_items = 0;
  int64_t max_items = -1;  // < 0: without limit
  std::optional<ContainsRule> contains = {};
  bool unique_items = false;

  // Objects. A key that neither `properties` nor `patterns` has meets `additional`.
  std::vector<std::pair<std::string, Demand>> properties = {};
  std::vector<PatternProperty> patterns = {};
  std::optional<Demand> additional = {};
  std::optional<Demand> property_names = {};
  std::vector<std::string> required = {};
  int64_t min_properties = 0;
  int64_t max_properties = -1;          // < 0: without limit
  std::vector<RegexId> some_keys = {};  // of each language, at least one key
  bool describes_object = false;        // `strict` closes it

  // In place.
  std::vector<Demand> all_of = {};   // allOf, $ref, not
  bool own_properties_first = true;  // before those of all_of, as the schema is written
  std::vector<std::vector<Branch>> choices = {};  // of each, one branch or more: anyOf, if, ...
  std::vector<std::vector<Demand>> one_of = {};   // of each, exactly one
  // The values that `types`, `numbers` and `strings` stand for, where they are an enumeration.
  bool enumerates = false;
  std::vector<const base::Json*> constants = {};

  bool HasArrayPart() const;
  bool HasObjectPart() const;
};

class SchemaTable {
 public:
  SchemaTable();
  // References stay valid.
  const Schema& of(Demand demand) const { return schemas_[static_cast<size_t>(demand >> 1)]; }
  Schema& mutable_of(Demand demand) { return schemas_[static_cast<size_t>(demand >> 1)]; }
  Demand Add(Schema schema);
  int64_t size() const { return static_cast<int64_t>(schemas_.size()); }

 private:
  std::deque<Schema> schemas_;
};

}  // namespace thalweg::grammar
