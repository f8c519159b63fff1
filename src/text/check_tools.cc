#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/chat_checks.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

using base::Json;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

Status CheckName(std::string_view name, const std::string& path) {
  if (!name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, IsNameByte))
    return {};
  return FieldError(path,
                    fmt::format("\"{}\" is no name: 1..{} of the letters A-Z and a-z, digits, _ "
                                "and -",
                                Excerpt(name), kMaxNameBytes));
}

Status CheckParameters(const Json& parameters, const std::string& path) {
  if (!parameters.is_object()) return FieldError(path, "must be a JSON Schema of an object");
  const auto type = parameters.find("type");
  if (type != parameters.end() && *type != "object")
    return FieldError(path, "must be a JSON Schema of type object");
  return CheckValue(parameters, 1, path);
}

Status CheckTool(const ToolDefinition& tool, const std::string& path) {
  TW_TRY(CheckName(tool.name, path + ".name"));
  if (!tool.name_space.empty()) TW_TRY(CheckName(tool.name_space, path + ".namespace"));
  TW_TRY(CheckNoPlaceholder(path + ".description", tool.description));
  TW_TRY(CheckParameters(tool.parameters, path + ".parameters"));
  if (!tool.as_given.is_object()) return {};
  return CheckValue(tool.as_given, 0, path);
}

}  // namespace

Status CheckValue(const Json& value, int depth, const std::string& path) {
  if (depth > kMaxSchemaDepth)
    return FieldError(path, fmt::format("nested more than {} deep", kMaxSchemaDepth));
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return FieldError(path, "a number is not finite, which JSON cannot say");
  if (value.is_string()) return CheckNoPlaceholder(path, value.get_ref<const std::string&>());
  if (!value.is_structured()) return {};
  for (const auto& [key, member] : value.items()) {
    if (value.is_object()) TW_TRY(CheckNoPlaceholder(path, key));
    TW_TRY(CheckValue(member, depth + 1, path));
  }
  return {};
}

Status CheckTools(std::span<const ToolDefinition> tools, const std::string& path) {
  for (size_t i = 0; i < tools.size(); ++i)
    TW_TRY(CheckTool(tools[i], fmt::format("{}[{}].function", path, i)));
  return {};
}

}  // namespace thalweg::text
