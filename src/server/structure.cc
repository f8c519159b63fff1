#include "server/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/json_values.h"
#include "api/structured.h"
#include "server/limits.h"

namespace thalweg::server {
namespace {

using ReadArgs = Result<std::string> (*)(const Json&, std::string_view);

Result<std::string> TextArgs(const Json& json, std::string_view name) {
  TW_ASSIGN(const std::string text, api::ReadString(json, name));
  Json args;
  args["type"] = name;
  args["content"] = text;
  return args.dump();
}

// vLLM's names of before structured_outputs: guided_json and so on.
Result<std::string> GuidedArgs(const Json& json, std::string_view name) {
  constexpr std::string_view kPrefix = "guided_";
  Json outputs;
  outputs[std::string(name.substr(kPrefix.size()))] = json;
  return api::SoArgsOfStructuredOutputs(outputs, name);
}

struct Spelling {
  std::string_view name;
  ReadArgs read;
};
constexpr std::array kSpellings = {Spelling{"so_args", api::SoArgsText},
                                   Spelling{"response_format", api::SoArgsOfResponseFormat},
                                   Spelling{"structured_outputs", api::SoArgsOfStructuredOutputs},
                                   Spelling{"regex", TextArgs},
                                   Spelling{"ebnf", TextArgs},
                                   Spelling{"guided_json", GuidedArgs},
                                   Spelling{"guided_regex", GuidedArgs},
                                   Spelling{"guided_choice", GuidedArgs},
                                   Spelling{"guided_grammar", GuidedArgs}};

std::string TextMember(const Json& object, std::string_view name) {
  const Json* member = object.is_object() ? FindField(object, name) : nullptr;
  return member != nullptr && member->is_string() ? member->get<std::string>() : std::string();
}

// "namespace" is a name or an object that has one.
std::string NamespaceOf(const Json& tool) {
  const Json* field = FindField(tool, "namespace");
  if (field == nullptr) return {};
  return field->is_string() ? field->get<std::string>() : TextMember(*field, "name");
}

std::string Qualified(const std::string& group, const std::string& name) {
  return group.empty() || name.find("::") != std::string::npos ? name : group + "::" + name;
}

void AddTool(const Json& tool, std::string group, const std::string& path, std::string_view member,
             std::vector<ToolSchemaPlace>* places) {
  const Json* inner = FindField(tool, "function");
  const bool wrapped = inner != nullptr && inner->is_object();
  const Json& function = wrapped ? *inner : tool;
  if (std::string own = NamespaceOf(tool); !own.empty()) group = std::move(own);
  if (std::string own = NamespaceOf(function); !own.empty()) group = std::move(own);
  places->push_back(
      {.name = Qualified(group, TextMember(function, "name")),
       .path = wrapped ? path + ".function.parameters" : fmt::format("{}.{}", path, member)});
}

void AddTools(const Json& tools, const std::string& group, const std::string& path,
              std::string_view member, std::vector<ToolSchemaPlace>* places) {
  if (!tools.is_array()) return;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!tools[i].is_object()) continue;
    if (group.empty() && TextMember(tools[i], "type") == "namespace") {
      const Json* inner = FindField(tools[i], "tools");
      const std::string name = TextMember(tools[i], "name");
      if (inner != nullptr && !name.empty()) AddTools(*inner, name, at + ".tools", member, places);
      continue;
    }
    AddTool(tools[i], group, at, member, places);
  }
}

}  // namespace

Result<StructureChoice> ReadStructure(const Json& body) {
  StructureChoice choice;
  for (const Spelling& spelling : kSpellings) {
    const Json* json = FindField(body, spelling.name);
    if (json == nullptr) continue;
    TW_ASSIGN(std::string args, spelling.read(*json, spelling.name));
    if (args.empty()) continue;
    if (!choice.field.empty()) {
      return base::InvalidArgument(
          fmt::format("{} and {} both say what the text must be: give one of them", choice.field,
                      spelling.name));
    }
    choice = {.args = std::move(args), .field = std::string(spelling.name)};
  }
  if (choice.args.size() <= kMaxSchemaBytes) return choice;
  return base::InvalidArgument(fmt::format("{}: has {} bytes, but may have {} at most",
                                           choice.field, choice.args.size(), kMaxSchemaBytes));
}

void CopyStructure(const Json& body, Json* chat) {
  for (const Spelling& spelling : kSpellings) {
    const Json* json = FindField(body, spelling.name);
    if (json != nullptr && !chat->contains(spelling.name))
      (*chat)[std::string(spelling.name)] = *json;
  }
}

void AddToolPlaces(const Json& tools, const std::string& path, std::string_view member,
                   std::vector<ToolSchemaPlace>* places) {
  AddTools(tools, "", path, member, places);
}

void NameField(const StructureSource& source, ApiError* error) {
  constexpr std::string_view kPrefix = "so_args: ";
  if (!error->message.starts_with(kPrefix)) return;
  const std::string what = error->message.substr(kPrefix.size());
  std::string field = source.field;
  for (const ToolSchemaPlace& tool : source.tools) {
    if (what.find("tool " + tool.name + ": ") != std::string::npos) field = tool.path;
  }
  if (field.empty()) field = "tools";
  error->message = field + ": " + what;
  error->param = std::move(field);
}

}  // namespace thalweg::server
