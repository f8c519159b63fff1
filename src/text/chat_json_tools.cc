#include <fmt/format.h>

#include "text/chat_json.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

using base::Json;

// What stands around a tool and adds to it.
struct Group {
  std::string name = {};
  std::string description = {};
};

// "namespace" is a name or {"name", "description"}.
Result<Group> ReadGroup(const JsonField& field) {
  Group group;
  if (field.value().is_string()) {
    TW_ASSIGN(group.name, field.AsString());
    return group;
  }
  TW_ASSIGN(const JsonField name, field.Member("name"));
  TW_ASSIGN(group.name, name.AsString());
  TW_ASSIGN(group.description, field.StringOr("description", ""));
  return group;
}

Result<std::optional<Group>> OwnGroup(const JsonField& tool) {
  TW_ASSIGN(const std::optional<JsonField> field, tool.Optional("namespace"));
  if (!field) return std::optional<Group>();
  TW_ASSIGN(Group group, ReadGroup(*field));
  return std::optional(std::move(group));
}

// A tool is in one namespace: that of its group, a field of its own, or a part of its name.
Status PlaceInGroup(const JsonField& function, const std::optional<Group>& group,
                    ToolDefinition* tool) {
  const size_t mark = tool->name.find("::");
  if (mark != std::string::npos) {
    tool->name_space = tool->name.substr(0, mark);
    tool->name.erase(0, mark + 2);
  }
  if (!group) return {};
  if (!tool->name_space.empty() && tool->name_space != group->name)
    return function.Wrong(fmt::format("is in two namespaces, \"{}\" and \"{}\"",
                                      Excerpt(tool->name_space), Excerpt(group->name)));
  tool->name_space = group->name;
  if (group->description.empty()) return {};
  tool->description = group->description + "\n" + tool->description;
  return {};
}

Result<ToolDefinition> ReadFunction(const JsonField& function, const std::optional<Group>& group) {
  ToolDefinition tool;
  TW_ASSIGN(const JsonField name, function.Member("name"));
  TW_ASSIGN(tool.name, name.AsString());
  TW_ASSIGN(tool.description, function.StringOr("description", ""));
  TW_ASSIGN(const std::optional<JsonField> parameters, function.Optional("parameters"));
  tool.parameters =
      parameters ? parameters->value() : Json{{"type", "object"}, {"properties", Json::object()}};
  TW_ASSIGN(const std::optional<JsonField> strict, function.Optional("strict"));
  if (strict) {
    TW_ASSIGN(tool.strict, strict->AsBool());
  }
  tool.as_given = function.value();
  TW_ASSIGN(std::optional<Group> own, OwnGroup(function));
  TW_TRY(PlaceInGroup(function, own ? own : group, &tool));
  return tool;
}

bool HasType(const JsonField& field, std::string_view type) {
  const auto at = field.value().find("type");
  return at != field.value().end() && *at == type;
}

// No type is that of functions.
Status RequireFunction(const JsonField& field, std::string_view what) {
  TW_ASSIGN(const std::optional<JsonField> type, field.Optional("type"));
  if (!type || HasType(field, "function")) return {};
  return field.NotSupported(fmt::format("{} of type {} are not taken; use function", what,
                                        Excerpt(type->value().dump())));
}

Result<ToolDefinition> ReadTool(const JsonField& tool, const std::optional<Group>& group) {
  TW_TRY(RequireFunction(tool, "tools"));
  TW_ASSIGN(const std::optional<JsonField> function, tool.Optional("function"));
  if (!function) {
    TW_ASSIGN(ToolDefinition flat, ReadFunction(tool, group));
    flat.as_given.erase("type");
    return flat;
  }
  TW_ASSIGN(std::optional<Group> own, OwnGroup(tool));
  return ReadFunction(*function, own ? own : group);
}

Status AddTools(const JsonField& tools, const std::optional<Group>& group,
                std::vector<ToolDefinition>* out) {
  TW_TRY(CheckArray(tools, kMaxTools));
  for (size_t i = 0; i < tools.value().size(); ++i) {
    const JsonField tool = tools.Element(i);
    TW_TRY(tool.RequireObject());
    if (!group && HasType(tool, "namespace")) {
      TW_ASSIGN(const Group inner, ReadGroup(tool));
      TW_ASSIGN(const JsonField members, tool.Member("tools"));
      TW_TRY(AddTools(members, inner, out));
      continue;
    }
    if (out->size() == kMaxTools)
      return tool.Wrong(fmt::format("there are more than {} tools", kMaxTools));
    TW_ASSIGN(ToolDefinition added, ReadTool(tool, group));
    out->push_back(std::move(added));
  }
  return {};
}

Result<ToolSelection> ReadNamedChoice(const JsonField& choice) {
  TW_TRY(RequireFunction(choice, "choices"));
  TW_ASSIGN(const std::optional<JsonField> function, choice.Optional("function"));
  const JsonField& named = function ? *function : choice;
  TW_ASSIGN(const JsonField name, named.Member("name"));
  ToolCall tool;
  TW_ASSIGN(tool.name, name.AsString());
  TW_ASSIGN(tool.name_space, named.StringOr("namespace", ""));
  return ToolSelection{.kind = ToolSelection::Kind::kNamed, .name = FullName(tool)};
}

}  // namespace

Result<std::vector<ToolDefinition>> ReadTools(const JsonField& tools) {
  std::vector<ToolDefinition> out;
  TW_TRY(AddTools(tools, std::nullopt, &out));
  return out;
}

Result<ToolSelection> ReadToolChoice(const JsonField& choice) {
  using Kind = ToolSelection::Kind;
  if (choice.value().is_object()) return ReadNamedChoice(choice);
  if (choice.value() == "none") return ToolSelection{.kind = Kind::kNone};
  if (choice.value() == "auto") return ToolSelection{.kind = Kind::kAuto};
  if (choice.value() == "required") return ToolSelection{.kind = Kind::kRequired};
  return choice.Wrong(
      "must be none, auto, required or the name of a tool in {\"type\": "
      "\"function\", \"function\": {\"name\": ...}}");
}

}  // namespace thalweg::text
