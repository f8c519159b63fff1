#include "grammar/constraint.h"

#include <fmt/format.h>

#include <utility>

#include "grammar/ebnf.h"
#include "grammar/regex_syntax.h"
#include "grammar/structure.h"

namespace thalweg::grammar {
namespace {

using base::Json;
using Whitespace = SchemaOptions::Whitespace;

constexpr std::pair<std::string_view, ConstraintKind> kKinds[] = {
    {"regex", ConstraintKind::kRegex},
    {"json_schema", ConstraintKind::kJsonSchema},
    {"ebnf", ConstraintKind::kEbnf},
    {"json_object", ConstraintKind::kJsonObject},
    {"structural", ConstraintKind::kStructural}};

constexpr std::pair<std::string_view, Whitespace> kWhitespaces[] = {
    {"flexible", Whitespace::kFlexible},
    {"compact", Whitespace::kCompact},
    {"python", Whitespace::kPython}};

Status FieldError(std::string_view field, std::string_view what) {
  return base::InvalidArgument(fmt::format("so_args.{}: {}", field, what));
}

template <typename Names, typename Value>
Status ReadName(const Json& json, std::string_view field, const Names& names, Value* value) {
  std::string known;
  for (const auto& [name, named] : names) {
    if (json.is_string() && json.get_ref<const std::string&>() == name) {
      *value = named;
      return {};
    }
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", name);
  }
  return FieldError(field, fmt::format("must be one of {}", known));
}

Status ReadFlag(const Json& json, std::string_view field, bool* value) {
  if (!json.is_boolean()) return FieldError(field, "must be true or false");
  *value = json.get<bool>();
  return {};
}

// Patterns and grammars are text; schemas and structures are JSON, or its text.
Status ReadContent(const Json* content, Constraint* constraint) {
  const ConstraintKind kind = constraint->kind;
  const bool is_json = kind == ConstraintKind::kJsonSchema || kind == ConstraintKind::kStructural;
  if (kind == ConstraintKind::kJsonObject) {
    if (content == nullptr || content->empty() || *content == "") return {};
    return FieldError("content", "json_object takes none");
  }
  if (content == nullptr) return FieldError("content", "is missing");
  if (content->is_string()) {
    constraint->content = content->get<std::string>();
  } else if (is_json && (content->is_object() || content->is_boolean())) {
    constraint->content = content->dump();
  } else {
    return FieldError("content", is_json ? "must be an object or its text" : "must be a string");
  }
  return {};
}

Result<Json> ParseContent(const Constraint& constraint, std::string_view what,
                          const Limits& limits) {
  if (static_cast<int64_t>(constraint.content.size()) > limits.source_bytes) {
    return base::OutOfRange(fmt::format("a {} of {} bytes; the limit is {}", what,
                                        constraint.content.size(), limits.source_bytes));
  }
  base::JsonLimits json_limits;
  json_limits.max_depth = static_cast<int>(2 * limits.nesting);
  return base::ParseJson(constraint.content, what, json_limits);
}

}  // namespace

Result<Constraint> ParseConstraint(const Json& so_args) {
  if (!so_args.is_object()) return base::InvalidArgument("so_args must be an object");
  if (!so_args.contains("type")) return FieldError("type", "is missing");
  Constraint constraint;
  TW_TRY(ReadName(so_args["type"], "type", kKinds, &constraint.kind));
  for (const auto& [key, value] : so_args.items()) {
    if (key == "type" || key == "content") continue;
    if (key == "whitespace") {
      TW_TRY(ReadName(value, key, kWhitespaces, &constraint.schema.whitespace));
    } else if (key == "any_order") {
      TW_TRY(ReadFlag(value, key, &constraint.schema.any_order));
    } else if (key == "strict") {
      TW_TRY(ReadFlag(value, key, &constraint.schema.strict));
    } else if (key == "open_formats") {
      TW_TRY(ReadFlag(value, key, &constraint.schema.open_formats));
    } else {
      return FieldError(key.substr(0, 100), "is not understood");
    }
  }
  TW_TRY(ReadContent(so_args.contains("content") ? &so_args["content"] : nullptr, &constraint));
  return constraint;
}

Result<Symbol> AddConstraint(const Constraint& constraint, const text::Tokenizer* tokenizer,
                             const Limits& limits, Rules* rules) {
  switch (constraint.kind) {
    case ConstraintKind::kRegex: {
      TW_ASSIGN(const RegexId regex,
                ParseRegex(constraint.content, RegexDialect::kWhole, CharacterEncoding::kUtf8,
                           limits, &rules->regexes()));
      return Rules::Regex(regex);
    }
    case ConstraintKind::kEbnf: return AddEbnf(constraint.content, limits, rules);
    case ConstraintKind::kJsonObject: return AddAnyObject(constraint.schema, rules);
    case ConstraintKind::kJsonSchema: {
      TW_ASSIGN(const Json schema, ParseContent(constraint, "schema", limits));
      return AddSchema(schema, constraint.schema, limits, rules);
    }
    case ConstraintKind::kStructural: break;
  }
  TW_ASSIGN(const Json structure, ParseContent(constraint, "structure", limits));
  return AddStructure(structure, constraint.schema, tokenizer, limits, rules);
}

Result<Rules> FinishRules(Symbol start, const Limits& limits, Rules rules) {
  if (rules.regexes().exhausted() || rules.regexes().size() > limits.expressions ||
      rules.SymbolCount() > limits.symbols) {
    return base::OutOfRange(fmt::format(
        "the constraint is too large: more than {} symbols or {} expressions; make it smaller",
        limits.symbols, limits.expressions));
  }
  rules.regexes().LimitWork(INT64_MAX);
  const int32_t rule = rules.NewRule("start");
  rules.AddAlternative(rule, {start});
  rules.set_start(rule);
  return rules;
}

Result<Rules> CompileConstraint(const Constraint& constraint, const text::Tokenizer* tokenizer,
                                const Limits& limits) {
  Rules rules;
  rules.regexes().LimitWork(kCompileWork);
  TW_ASSIGN(const Symbol start, AddConstraint(constraint, tokenizer, limits, &rules));
  return FinishRules(start, limits, std::move(rules));
}

}  // namespace thalweg::grammar
