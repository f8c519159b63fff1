#include "api/argument_check.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/schema.h"

namespace thalweg::api {
namespace {

// One token for each byte, so that a text is its own tokens, and one for the end.
constexpr int32_t kEndToken = 256;

const std::shared_ptr<const grammar::Vocabulary>& Bytes() {
  static const std::shared_ptr<const grammar::Vocabulary> bytes = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < kEndToken; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    tokens.emplace_back();
    return grammar::Vocabulary::OfBytes(std::move(tokens),
                                        {.size = kEndToken + 1, .end_tokens = {kEndToken}});
  }();
  return bytes;
}

// White space between tokens of JSON is bounded in grammars and the order of members may be; text
// that is written anew has none of the first.
Result<std::string> Compact(std::string_view arguments) {
  TW_ASSIGN(const base::Json json, base::ParseJson(arguments, "arguments", {.max_depth = 128}));
  return json.dump();
}

}  // namespace

ArgumentCheck::ArgumentCheck(std::shared_ptr<grammar::Grammar> grammar)
    : grammar_(std::move(grammar)) {}

Result<ArgumentCheck> ArgumentCheck::Create(const base::Json& parameters) {
  const grammar::SchemaOptions options = {
      .whitespace = grammar::SchemaOptions::Whitespace::kCompact, .any_order = true};
  TW_ASSIGN(grammar::Rules rules, grammar::CompileSchema(parameters, options, {}));
  TW_ASSIGN(auto grammar, grammar::Grammar::Create(std::move(rules), Bytes()));
  return ArgumentCheck(std::move(grammar));
}

Status ArgumentCheck::Check(std::string_view arguments) const {
  TW_ASSIGN(const std::string text, Compact(arguments));
  grammar::Matcher matcher(grammar_);
  for (size_t at = 0; at < text.size(); ++at) {
    TW_ASSIGN(const bool fits, matcher.Accept(static_cast<uint8_t>(text[at])));
    if (fits) continue;
    return base::InvalidArgument(
        fmt::format("the arguments do not fit the schema of the tool from byte {} of {} on", at,
                    text.substr(0, 200)));
  }
  if (matcher.can_end()) return {};
  return base::InvalidArgument("the arguments lack something that the schema of the tool requires");
}

}  // namespace thalweg::api
