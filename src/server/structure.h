// What a request's text must be, in each of the spellings that clients have, and which field of the
// request is to blame when it cannot be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/errors.h"
#include "server/fields.h"

namespace thalweg::server {

struct StructureChoice {
  std::string args = {};   // so_args; empty: anything
  std::string field = {};  // that said so
};

// so_args, structured_outputs, response_format, regex, ebnf and guided_*: at most one of them.
Result<StructureChoice> ReadStructure(const Json& body);

// The fields of `body` that say what the text must be, over to `chat`, for protocols that spell
// response_format in their own way.
void CopyStructure(const Json& body, Json* chat);

// Where a body has the schema of a tool.
struct ToolSchemaPlace {
  std::string name = {};  // as the model knows it
  std::string path = {};  // "tools[2].function.parameters"
};

// Of the tools in `tools` (functions, flat ones, namespaces of them). `path`: of the list;
// `member`: what a flat tool calls its schema.
void AddToolPlaces(const Json& tools, const std::string& path, std::string_view member,
                   std::vector<ToolSchemaPlace>* places);

// What so_args of a request to the model came from.
struct StructureSource {
  std::string field = {};  // that says what content must be; empty: none
  std::vector<ToolSchemaPlace> tools = {};
};

// The engine's refusal of so_args as one of the field that they came from.
void NameField(const StructureSource& source, ApiError* error);

}  // namespace thalweg::server
