#include "grammar/string_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/formats.h"
#include "grammar/regex_syntax.h"

namespace thalweg::grammar {
namespace {

using base::Json;
constexpr CharacterEncoding kUtf8 = CharacterEncoding::kUtf8;
constexpr int kMostReferences = 64;  // one after the other: a longer chain is a cycle

// Keywords that say nothing about strings.
constexpr std::string_view kOthers[] = {"title",
                                        "description",
                                        "default",
                                        "examples",
                                        "deprecated",
                                        "readOnly",
                                        "writeOnly",
                                        "$comment",
                                        "$schema",
                                        "$id",
                                        "$defs",
                                        "definitions",
                                        "properties",
                                        "required",
                                        "additionalProperties",
                                        "patternProperties",
                                        "propertyNames",
                                        "minProperties",
                                        "maxProperties",
                                        "dependentRequired",
                                        "items",
                                        "prefixItems",
                                        "additionalItems",
                                        "minItems",
                                        "maxItems",
                                        "uniqueItems",
                                        "contains",
                                        "minContains",
                                        "maxContains",
                                        "minimum",
                                        "maximum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum",
                                        "multipleOf",
                                        "contentEncoding",
                                        "contentMediaType"};

Result<const Json*> Referenced(const Json& reference, const Json& root) {
  if (reference.is_string()) {
    const std::string& text = reference.get_ref<const std::string&>();
    for (const char* part : {"$defs", "definitions"}) {
      const std::string prefix = fmt::format("#/{}/", part);
      if (!text.starts_with(prefix) || !root.is_object() || !root.contains(part)) continue;
      const std::string name = text.substr(prefix.size());
      if (root[part].is_object() && root[part].contains(name)) return &root[part][name];
    }
  }
  return base::Unsupported("$ref: only #/$defs/NAME and #/definitions/NAME are understood here");
}

class StringLanguage {
 public:
  StringLanguage(const Json& root, const Limits& limits, RegexArena* arena)
      : root_(root), limits_(limits), arena_(arena), any_(AnyText(kUtf8, arena)) {}

  Result<RegexId> Of(const Json& schema, int depth) {
    if (schema.is_boolean()) return schema.get<bool>() ? any_ : kNothing;
    if (!schema.is_object()) return base::InvalidArgument("a schema is an object or a boolean");
    if (depth > kMostReferences)
      return base::Unsupported("$ref: nested too deeply, or in a circle");
    std::vector<RegexId> all = {any_};
    for (const auto& [key, value] : schema.items()) {
      const auto one = Keyword(schema, key, value, depth);
      if (!one.ok()) return one.status().WithContext(key.substr(0, 100));
      all.push_back(*one);
    }
    return arena_->Both(all);
  }

 private:
  Result<RegexId> Keyword(const Json& schema, const std::string& key, const Json& value, int depth);
  Result<RegexId> Combined(const Json& schema, const std::string& key, const Json& value,
                           int depth);
  Result<RegexId> Length(const Json& value, bool least);
  Result<RegexId> Conditional(const Json& schema, const Json& condition, int depth);
  Result<RegexId> Type(const Json& value) const;
  RegexId Values(const Json& values) const;
  Result<std::vector<RegexId>> Branches(const Json& value, int depth);
  RegexId ExactlyOne(const std::vector<RegexId>& branches);

  const Json& root_;
  const Limits& limits_;
  RegexArena* arena_;
  RegexId any_;
};

Result<RegexId> StringLanguage::Keyword(const Json& schema, const std::string& key,
                                        const Json& value, int depth) {
  if (std::ranges::find(kOthers, key) != std::end(kOthers)) return any_;
  if (key == "type") return Type(value);
  if (key == "const") return Values(Json::array({value}));
  if (key == "enum" && value.is_array()) return Values(value);
  if (key == "minLength") return Length(value, true);
  if (key == "maxLength") return Length(value, false);
  if (key == "pattern" && value.is_string()) {
    return ParseRegex(value.get_ref<const std::string&>(), RegexDialect::kSearch, kUtf8, limits_,
                      arena_);
  }
  if (key == "format" && value.is_string()) {
    return FormatRegex(value.get_ref<const std::string&>(), kUtf8, arena_);
  }
  return Combined(schema, key, value, depth);
}

Result<RegexId> StringLanguage::Combined(const Json& schema, const std::string& key,
                                         const Json& value, int depth) {
  if (key == "$ref") {
    TW_ASSIGN(const Json* const target, Referenced(value, root_));
    return Of(*target, depth + 1);
  }
  if (key == "not") {
    TW_ASSIGN(const RegexId excluded, Of(value, depth + 1));
    return arena_->Not(excluded);
  }
  if (key == "if") return Conditional(schema, value, depth);
  if (key == "then" || key == "else") return any_;
  const bool list = key == "allOf" || key == "anyOf" || key == "oneOf";
  if (!list) return base::Unsupported("this keyword is not understood for a string parameter");
  TW_ASSIGN(const std::vector<RegexId> branches, Branches(value, depth));
  if (key == "allOf") return arena_->Both(branches);
  return key == "anyOf" ? arena_->Either(branches) : ExactlyOne(branches);
}

Result<std::vector<RegexId>> StringLanguage::Branches(const Json& value, int depth) {
  if (!value.is_array() || value.empty())
    return base::InvalidArgument("a list of schemas expected");
  std::vector<RegexId> branches;
  for (const Json& one : value) {
    TW_ASSIGN(const RegexId branch, Of(one, depth + 1));
    branches.push_back(branch);
  }
  return branches;
}

RegexId StringLanguage::ExactlyOne(const std::vector<RegexId>& branches) {
  RegexId none = any_;  // of the branches so far
  RegexId one = kNothing;
  for (const RegexId branch : branches) {
    one = arena_->Either(arena_->Both(one, arena_->Not(branch)), arena_->Both(none, branch));
    none = arena_->Both(none, arena_->Not(branch));
  }
  return one;
}

Result<RegexId> StringLanguage::Conditional(const Json& schema, const Json& condition, int depth) {
  TW_ASSIGN(const RegexId test, Of(condition, depth + 1));
  RegexId then = any_;
  RegexId otherwise = any_;
  if (schema.contains("then")) {
    TW_ASSIGN(then, Of(schema["then"], depth + 1));
  }
  if (schema.contains("else")) {
    TW_ASSIGN(otherwise, Of(schema["else"], depth + 1));
  }
  return arena_->Either(arena_->Both(test, then), arena_->Both(arena_->Not(test), otherwise));
}

Result<RegexId> StringLanguage::Length(const Json& value, bool least) {
  if (!value.is_number_integer() || value < 0) return base::InvalidArgument("a count expected");
  if (value > limits_.repetition) {
    return base::OutOfRange(fmt::format("the limit is {}", limits_.repetition));
  }
  const auto count = value.get<int64_t>();
  return arena_->Repeat(AnyCharacter(kUtf8, arena_), least ? count : 0, least ? -1 : count);
}

Result<RegexId> StringLanguage::Type(const Json& value) const {
  const bool text = value == "string";
  const bool listed = value.is_array() && std::ranges::find(value, Json("string")) != value.end();
  if (!value.is_string() && !value.is_array()) return base::InvalidArgument("a type expected");
  return text || listed ? any_ : kNothing;
}

RegexId StringLanguage::Values(const Json& values) const {
  std::vector<RegexId> literals;
  for (const Json& value : values) {
    if (value.is_string()) literals.push_back(arena_->Literal(value.get_ref<const std::string&>()));
  }
  return arena_->Either(literals);
}

bool IsText(const Json& value) { return value.is_string(); }

}  // namespace

Result<RegexId> StringsOf(const Json& schema, const Json& root, const Limits& limits,
                          RegexArena* arena) {
  return StringLanguage(root, limits, arena).Of(schema, 0);
}

Result<bool> AllowsMoreThanStrings(const Json& schema, const Json& root) {
  const Json* at = &schema;
  for (int depth = 0; depth < kMostReferences; ++depth) {
    if (!at->is_object()) return *at != false;
    if (at->contains("type") && (*at)["type"] == "string") return false;
    if (at->contains("const") && IsText((*at)["const"])) return false;
    if (at->contains("enum") && std::ranges::all_of((*at)["enum"], IsText)) return false;
    if (!at->contains("$ref")) return true;
    TW_ASSIGN(at, Referenced((*at)["$ref"], root));
  }
  return base::Unsupported("$ref: in a circle");
}

}  // namespace thalweg::grammar
