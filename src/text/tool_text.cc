#include "text/tool_text.h"

#include <utility>

#include "text/python_json.h"

// The wire constants below are data of the protocol (NOTICE): the model was trained on these very
// bytes.
namespace thalweg::text {
namespace {

using base::Json;

constexpr std::string_view kToolsBegin =
    R"(## Tools

You have access to a set of tools to help answer the user's question. )"
    R"(You can invoke tools by writing a "<｜DSML｜ calls>" block like the following:

<｜DSML｜ calls>
<｜DSML｜ invoke name="$TOOL_NAME">
<｜DSML｜ parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜ parameter>
...
</｜DSML｜ invoke>
<｜DSML｜ invoke name="$TOOL_NAME2">
...
</｜DSML｜ invoke>
</｜DSML｜ calls>

String parameters should be specified as is and set `string="true"`. )"
    R"(For all other types (numbers, booleans, arrays, objects), )"
    R"(pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), )"
    R"(you MUST output your complete reasoning inside <think>...</think> )"
    R"(BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";
constexpr std::string_view kToolsEnd = R"(
You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
)";

constexpr base::JsonLimits kArgumentLimits = {.max_depth = 128, .max_elements = 1'000'000};

Json SchemaOf(const ToolDefinition& tool, ChatOptions::SchemaText schema_text) {
  if (schema_text == ChatOptions::SchemaText::kNormalised || !tool.as_given.is_object()) {
    return Json{{"name", tool.FullName()},
                {"description", tool.description},
                {"parameters", tool.parameters}};
  }
  Json schema = tool.as_given;
  if (tool.name_space.empty()) return schema;
  schema.erase("namespace");
  schema["name"] = tool.FullName();
  schema["description"] = tool.description;
  return schema;
}

void WriteParameter(std::string_view name, bool is_string, std::string_view value,
                    PromptWriter* writer) {
  writer->Own("<｜DSML｜ parameter name=\"");
  writer->Text(name);
  writer->Own(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
  writer->Text(value);
  writer->Own("</｜DSML｜ parameter>\n");
}

void WriteArguments(const ToolCall& call, bool unwrap, PromptWriter* writer) {
  const std::optional<Json> arguments = ArgumentsObject(call.arguments, unwrap);
  if (!arguments) return WriteParameter("arguments", true, call.arguments, writer);
  for (const auto& [name, value] : arguments->items()) {
    if (value.is_string()) {
      WriteParameter(name, true, value.get_ref<const std::string&>(), writer);
    } else {
      WriteParameter(name, false, PythonJson(value), writer);
    }
  }
  if (arguments->empty()) writer->Own("\n");
}

void WriteCall(const ToolCall& call, bool unwrap, PromptWriter* writer) {
  writer->Own("<｜DSML｜ invoke name=\"");
  writer->Text(FullName(call));
  writer->Own("\">\n");
  WriteArguments(call, unwrap, writer);
  writer->Own("</｜DSML｜ invoke>\n");
}

}  // namespace

std::optional<Json> ArgumentsObject(std::string_view arguments, bool unwrap) {
  if (arguments.empty()) return Json::object();
  const Result<Json> parsed = base::ParseJson(arguments, "arguments", kArgumentLimits);
  if (!parsed.ok()) return std::nullopt;
  if (parsed->is_object()) return *parsed;
  if (!unwrap || !parsed->is_string()) return std::nullopt;
  return ArgumentsObject(parsed->get_ref<const std::string&>(), false);
}

void WriteTools(std::span<const ToolDefinition> tools, ChatOptions::SchemaText schema_text,
                PromptWriter* writer) {
  writer->Own(kToolsBegin);
  for (const ToolDefinition& tool : tools) {
    writer->Text(PythonJson(SchemaOf(tool, schema_text)));
    writer->Own("\n");
  }
  writer->Own(kToolsEnd);
}

void WriteCalls(std::span<const ToolCall> calls, bool unwrap_arguments, PromptWriter* writer) {
  writer->Own("<｜DSML｜ calls>\n");
  for (const ToolCall& call : calls) WriteCall(call, unwrap_arguments, writer);
  writer->Own("</｜DSML｜ calls>");
}

void WriteForcedCalls(PromptWriter* writer) { writer->Own("\n\n<｜DSML｜ calls>\n"); }

}  // namespace thalweg::text
