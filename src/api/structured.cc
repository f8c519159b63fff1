#include "api/structured.h"

#include <fmt/format.h>

#include <array>

namespace thalweg::api {
namespace {

std::string SoArgs(std::string_view type, Json content) {
  Json args;
  args["type"] = type;
  args["content"] = std::move(content);
  return args.dump();
}

Status UnknownMember(std::string_view what, std::string_view name, std::string_view known) {
  return base::InvalidArgument(
      fmt::format("{} has an unknown member \"{}\"; known: {}", what, name, known));
}

// {"name", "description", "schema", "strict"}; a schema that is left out allows
// any object.
Result<std::string> SoArgsOfNamedSchema(const Json& json, const std::string& what) {
  if (!json.is_object()) return WrongValue(json, what, "an object with a schema");
  Json args;
  args["type"] = "json_schema";
  args["content"] = Json{{"type", "object"}};
  for (const auto& [name, value] : json.items()) {
    if (name == "schema") {
      args["content"] = value;
    } else if (name == "strict") {
      if (value.is_null()) continue;
      TW_ASSIGN(args["strict"], ReadBool(value, what + ".strict"));
    } else if (name != "name" && name != "description") {
      return UnknownMember(what, name, "name, description, schema, strict");
    }
  }
  return args.dump();
}

// Choices as the one regex that has no others: each character stands for
// itself.
Result<std::string> SoArgsOfChoices(const Json& json, std::string_view what) {
  TW_ASSIGN(const std::vector<std::string> choices, ReadStrings(json, what));
  std::string regex;
  for (const std::string& choice : choices) {
    if (&choice != &choices.front()) regex += '|';
    for (const char c : choice) {
      if (std::string_view(R"(\.+*?()|[]{}^$)").find(c) != std::string_view::npos) regex += '\\';
      regex += c;
    }
  }
  if (choices.empty()) return base::InvalidArgument(fmt::format("{} has no choices", what));
  return SoArgs("regex", regex);
}

}  // namespace

Result<std::string> SoArgsText(const Json& json, std::string_view what) {
  if (json.is_null()) return std::string();
  if (json.is_object()) return json.dump();
  if (json.is_string() && !json.get_ref<const std::string&>().empty())
    return json.get<std::string>();
  return WrongValue(json, what, R"(an object: {"type": "json_schema", "content": {...}})");
}

Result<std::string> SoArgsOfResponseFormat(const Json& json, std::string_view what) {
  if (json.is_null()) return std::string();
  const Json type = json.is_object() ? json.value("type", Json()) : Json();
  if (type == "text") return std::string();
  if (type == "json_object") return std::string(R"({"type":"json_object"})");
  if (type == "json_schema" && json.contains("json_schema"))
    return SoArgsOfNamedSchema(json["json_schema"], fmt::format("{}.json_schema", what));
  return WrongValue(json, what,
                    R"({"type": "text"}, {"type": "json_object"} or {"type": "json_schema", )"
                    R"("json_schema": {"schema": {...}}})");
}

Result<std::string> SoArgsOfStructuredOutputs(const Json& json, std::string_view what) {
  if (json.is_null()) return std::string();
  if (!json.is_object() || json.size() != 1) {
    return WrongValue(json, what,
                      "an object with one of json, regex, choice, grammar, json_object");
  }
  const auto& [name, value] = *json.items().begin();
  const std::string member = fmt::format("{}.{}", what, name);
  if (name == "json") return SoArgs("json_schema", value);
  if (name == "choice") return SoArgsOfChoices(value, member);
  if (name == "json_object") {
    TW_ASSIGN(const bool wanted, ReadBool(value, member));
    return std::string(wanted ? R"({"type":"json_object"})" : "");
  }
  if (name != "regex" && name != "grammar")
    return UnknownMember(what, name, "json, regex, choice, grammar, json_object");
  TW_ASSIGN(const std::string text, ReadString(value, member));
  return SoArgs(name == "regex" ? "regex" : "ebnf", text);
}

}  // namespace thalweg::api
