#include "grammar/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/marked_text.h"
#include "grammar/string_schema.h"

namespace thalweg::grammar {
namespace {

using base::Json;

// Byte-exact; the bars are U+FF5C.
constexpr std::string_view kMark = "<｜DSML｜";
constexpr std::string_view kCloseMark = "</｜DSML｜";

struct Tool {
  std::string name;
  Json parameters;  // an object
};

std::string Tag(std::string_view name) { return fmt::format("{} {}>", kMark, name); }
std::string CloseTag(std::string_view name) { return fmt::format("{} {}>", kCloseMark, name); }

// What stands in a tag between quotes, as it is.
Status CheckName(std::string_view name) {
  const bool bad = name.empty() || name.find_first_of("\"<>\n\r") != std::string_view::npos;
  if (!bad) return {};
  return base::Unsupported(
      fmt::format("the name \"{}\" cannot stand in a tag", name.substr(0, 100)));
}

Status CheckParameters(const Json& parameters) {
  constexpr std::string_view kKnown[] = {
      "type",    "properties",  "required", "additionalProperties",
      "$defs",   "definitions", "title",    "description",
      "$schema", "$id",         "$comment", "examples",
      "default"};
  if (!parameters.is_object()) return base::InvalidArgument("parameters must be an object");
  for (const auto& [key, value] : parameters.items()) {
    if (std::ranges::find(kKnown, key) == std::end(kKnown)) {
      return base::Unsupported(fmt::format("parameters.{} cannot be enforced", key.substr(0, 100)));
    }
  }
  if (parameters.contains("type") && parameters["type"] != "object") {
    return base::InvalidArgument("parameters.type must be \"object\"");
  }
  const bool named = parameters.contains("properties") && !parameters["properties"].empty();
  if (!named && parameters.contains("additionalProperties") &&
      parameters["additionalProperties"] != false) {
    return base::Unsupported("parameters.additionalProperties without properties; name them");
  }
  return {};
}

Result<Tool> ParseTool(const Json& json) {
  const bool wrapped = json.is_object() && json.contains("function");
  const Json& function = wrapped ? json["function"] : json;
  if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) {
    return base::InvalidArgument("a tool needs a name");
  }
  Tool tool;
  tool.name = function["name"].get<std::string>();
  TW_TRY(CheckName(tool.name));
  tool.parameters = Json::object();
  if (function.contains("parameters") && !function["parameters"].is_null()) {
    tool.parameters = function["parameters"];
  }
  const Status status = CheckParameters(tool.parameters);
  if (!status.ok()) return status.WithContext("tool " + tool.name);
  return tool;
}

Result<std::vector<Tool>> ParseTools(const Json& tools, const ToolCallOptions& options) {
  if (!tools.is_array()) return base::InvalidArgument("tools must be a list");
  std::vector<Tool> all;
  std::vector<std::string> names;
  for (const Json& json : tools) {
    TW_ASSIGN(Tool tool, ParseTool(json));
    if (std::ranges::find(names, tool.name) != names.end()) {
      return base::InvalidArgument(fmt::format("two tools have the name {}", tool.name));
    }
    names.push_back(tool.name);
    const bool wanted =
        options.choice != ToolCallOptions::Choice::kNamed || tool.name == options.name;
    if (wanted) all.push_back(std::move(tool));
  }
  if (all.empty()) return base::InvalidArgument("tool_choice names no tool of the request");
  return all;
}

// A schema inside the parameters of a tool refers to definitions beside them; alone, it takes them
// along.
Json WithDefinitions(const Json& schema, const Json& root) {
  Json alone = schema;
  for (const char* key : {"$defs", "definitions"}) {
    if (!alone.is_object() || !root.contains(key)) continue;
    if (!alone.contains(key)) alone[key] = Json::object();
    for (const auto& [name, definition] : root[key].items()) {
      if (!alone[key].contains(name)) alone[key][name] = definition;
    }
  }
  return alone;
}

Status CheckReferences(const Json& json) {
  if (json.is_object() && json.contains("$ref") && json["$ref"].is_string()) {
    const std::string& to = json["$ref"].get_ref<const std::string&>();
    if (!to.starts_with("#/$defs/") && !to.starts_with("#/definitions/")) {
      return base::Unsupported("$ref: only #/$defs/ and #/definitions/ are understood here");
    }
  }
  if (!json.is_structured()) return {};
  for (const Json& child : json) TW_TRY(CheckReferences(child));
  return {};
}

class ToolCallBuilder {
 public:
  ToolCallBuilder(const ToolCallOptions& options, const Limits& limits, Rules* rules)
      : options_(options), limits_(limits), rules_(rules) {}

  Result<Symbol> Build(const std::vector<Tool>& tools) {
    std::vector<Symbol> calls;
    for (const Tool& tool : tools) {
      const auto call = Invoke(tool);
      if (!call.ok()) return call.status().WithContext("tool " + tool.name);
      calls.push_back(*call);
    }
    const Symbol line_end = Text("\n");
    const Symbol list =
        rules_->Repeat(rules_->Choice(calls, "call"), 1, options_.parallel ? -1 : 1, &line_end);
    const Symbol parts[] = {list, Text("\n" + CloseTag("calls"))};
    return Start(rules_->Sequence(parts, "calls"));
  }

 private:
  Symbol Text(std::string_view text) { return rules_->Literal(text); }

  // `calls`: what follows the first line of the block.
  Symbol Start(Symbol calls) {
    RegexArena& arena = rules_->regexes();
    if (options_.choice != ToolCallOptions::Choice::kAuto) {
      if (options_.block_open) return calls;
      const Symbol line_ends = Rules::Regex(arena.Repeat(arena.Literal("\n"), 0, -1));
      const Symbol parts[] = {line_ends, Text(Tag("calls") + "\n"), calls};
      return rules_->Sequence(parts, "required");
    }
    const std::vector<std::string> marks = {std::string(kMark)};
    const Symbol before = Rules::Regex(TextUpTo(kMark, marks, {}, &arena));
    const Symbol parts[] = {before, Text(" calls>\n"), calls};
    const Symbol choices[] = {rules_->Sequence(parts, "text and calls"),
                              Rules::Regex(FreeText(marks, &arena))};
    return rules_->Choice(choices, "auto");
  }

  Result<Symbol> Invoke(const Tool& tool) {
    TW_ASSIGN(const Symbol parameters, Parameters(tool.parameters));
    const Symbol parts[] = {Text(fmt::format("{} invoke name=\"{}\">\n", kMark, tool.name)),
                            parameters, Text(CloseTag("invoke"))};
    return rules_->Sequence(parts, tool.name);
  }

  // A line for each parameter, in order; an empty line where there is none.
  Result<Symbol> Parameters(const Json& parameters) {
    Json properties = Json::object();
    if (parameters.contains("properties")) properties = parameters["properties"];
    if (!properties.is_object()) return base::InvalidArgument("properties must be an object");
    std::vector<std::string> required;
    if (parameters.contains("required")) {
      if (!parameters["required"].is_array())
        return base::InvalidArgument("required must be a list");
      for (const Json& name : parameters["required"]) {
        if (!name.is_string()) return base::InvalidArgument("required must hold names");
        required.push_back(name.get<std::string>());
        if (!properties.contains(required.back())) properties[required.back()] = true;
      }
    }
    Symbol some = Rules::Regex(kEmptyString);  // lines from here on, after another one
    Symbol first = Text("\n");                 // lines from here on, after none
    for (auto it = properties.rbegin(); it != properties.rend(); ++it) {
      const auto line = Line(it.key(), it.value(), parameters);
      if (!line.ok()) return line.status().WithContext("parameter " + it.key().substr(0, 100));
      const bool optional = std::ranges::find(required, it.key()) == required.end();
      const Symbol begins[] = {*line, some};
      const Symbol from_here = rules_->Sequence(begins, "parameters");
      const Symbol either[] = {from_here, first};
      first = optional ? rules_->Choice(either, "parameters") : from_here;
      const Symbol skips[] = {from_here, some};
      some = optional ? rules_->Choice(skips, "parameters") : from_here;
    }
    return first;
  }

  Result<Symbol> Line(const std::string& name, const Json& schema, const Json& root) {
    TW_TRY(CheckName(name));
    TW_ASSIGN(const Symbol value, Value(schema, root));
    const Symbol parts[] = {Text(fmt::format("{} parameter name=\"{}\" string=\"", kMark, name)),
                            value, Text(CloseTag("parameter") + "\n")};
    return rules_->Sequence(parts, "parameter");
  }

  // A string as it is, or another value as JSON.
  Result<Symbol> Value(const Json& schema, const Json& root) {
    RegexArena& arena = rules_->regexes();
    std::vector<Symbol> choices;
    TW_ASSIGN(const RegexId strings, StringsOf(schema, root, limits_, &arena));
    const std::vector<std::string> close = {std::string(kCloseMark)};
    RegexId text = arena.Both(strings, FreeText(close, &arena));
    constexpr int64_t kMostStates = 2000;
    if (!arena.Positive(text)) text = arena.Determinise(text, kMostStates).value_or(text);
    if (text != kNothing) {
      choices.push_back(Rules::Regex(arena.Concat(arena.Literal("true\">"), text)));
    }
    TW_ASSIGN(const bool more, AllowsMoreThanStrings(schema, root));
    if (more) {
      const Json alone = WithDefinitions(schema, root);
      TW_TRY(CheckReferences(alone));
      TW_ASSIGN(const Symbol json, AddSchema(alone, options_.schema, limits_, rules_));
      const Symbol parts[] = {Text("false\">"), json};
      choices.push_back(rules_->Sequence(parts, "json"));
    }
    return rules_->Choice(choices, "value");
  }

  const ToolCallOptions& options_;
  const Limits& limits_;
  Rules* rules_;
};

}  // namespace

Result<Symbol> AddToolCalls(const Json& tools, const ToolCallOptions& options, const Limits& limits,
                            Rules* rules) {
  TW_ASSIGN(const std::vector<Tool> parsed, ParseTools(tools, options));
  return ToolCallBuilder(options, limits, rules).Build(parsed);
}

Result<Rules> ToolCallRules(const Json& tools, const ToolCallOptions& options,
                            const Limits& limits) {
  Rules rules;
  rules.regexes().LimitWork(kCompileWork);
  TW_ASSIGN(const Symbol start, AddToolCalls(tools, options, limits, &rules));
  return FinishRules(start, limits, std::move(rules));
}

Result<ToolCallOptions> ParseToolCallOptions(const Json& json, const SchemaOptions& schema) {
  using Choice = ToolCallOptions::Choice;
  ToolCallOptions options;
  options.schema = schema;
  const Json choice = json.value("tool_choice", Json("auto"));
  if (choice == "required") {
    options.choice = Choice::kRequired;
  } else if (choice.is_object() && choice.contains("function") && choice["function"].is_object() &&
             choice["function"].contains("name") && choice["function"]["name"].is_string()) {
    options.choice = Choice::kNamed;
    options.name = choice["function"]["name"].get<std::string>();
  } else if (choice != "auto") {
    return base::InvalidArgument("tool_choice must be auto, required or name a function");
  }
  for (const auto& [key, value] :
       {std::pair{"parallel_tool_calls", &options.parallel}, {"block_open", &options.block_open}}) {
    if (!json.contains(key)) continue;
    if (!json[key].is_boolean()) {
      return base::InvalidArgument(fmt::format("{} must be true or false", key));
    }
    *value = json[key].get<bool>();
  }
  return options;
}

}  // namespace thalweg::grammar
