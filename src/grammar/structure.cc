#include "grammar/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/marked_text.h"
#include "grammar/tool_calls.h"

namespace thalweg::grammar {
namespace {

using base::Json;

// Where in the document something stands, and how deep.
struct Place {
  std::string path;
  int64_t depth = 0;

  Place At(std::string_view name) const { return {fmt::format("{}.{}", path, name), depth + 1}; }
  Place At(size_t index) const { return {fmt::format("{}[{}]", path, index), depth + 1}; }
  Status Error(std::string_view what) const {
    return base::InvalidArgument(fmt::format("{}: {}", path, what));
  }
};

struct Tag {
  std::vector<MarkedPiece> begin;
  Symbol rest;  // content and end
  Place place;
};

class StructureBuilder {
 public:
  StructureBuilder(const SchemaOptions& options, const text::Tokenizer* tokenizer,
                   const Limits& limits, Rules* rules)
      : options_(options), tokenizer_(tokenizer), limits_(limits), rules_(rules) {}

  Result<Symbol> Structure(const Json& json);

 private:
  using Builder = Result<Symbol> (StructureBuilder::*)(const Json&, const Place&);
  struct FormatType {
    std::string_view name;
    Builder build;
  };

  Result<Symbol> Format(const Json& json, const Place& place);
  Result<Symbol> ConstString(const Json& json, const Place& place);
  Result<Symbol> SchemaFormat(const Json& json, const Place& place);
  Result<Symbol> RegexFormat(const Json& json, const Place& place);
  Result<Symbol> GrammarFormat(const Json& json, const Place& place);
  Result<Symbol> AnyTextFormat(const Json& json, const Place& place);
  Result<Symbol> TokenFormat(const Json& json, const Place& place);
  Result<Symbol> SequenceFormat(const Json& json, const Place& place);
  Result<Symbol> OrFormat(const Json& json, const Place& place);
  Result<Symbol> OptionalFormat(const Json& json, const Place& place);
  Result<Symbol> StarFormat(const Json& json, const Place& place);
  Result<Symbol> PlusFormat(const Json& json, const Place& place);
  Result<Symbol> TagFormat(const Json& json, const Place& place);
  Result<Symbol> SeparatedFormat(const Json& json, const Place& place);
  Result<Symbol> TriggeredFormat(const Json& json, const Place& place);
  Result<Symbol> ToolCallsFormat(const Json& json, const Place& place);

  Result<Symbol> OwnTriggers(const Json& json, const Place& place);
  Result<Symbol> LegacyStructures(const Json& json, const Place& place);
  Result<Symbol> AsInSoArgs(const Json& json, const Place& place);
  Result<Symbol> Constrained(ConstraintKind kind, std::string content);
  Result<std::vector<Symbol>> Elements(const Json& json, const Place& place);
  Result<Tag> OneTag(const Json& json, const Place& place);
  Result<Symbol> Content(const Json& json, const std::vector<std::string>& ends,
                         const Place& place);
  Result<Symbol> Triggered(const std::vector<std::vector<MarkedPiece>>& triggers,
                           const std::vector<Tag>& tags, const Json& json, const Place& place);
  Result<Symbol> AfterTrigger(const std::vector<MarkedPiece>& trigger, const std::vector<Tag>& tags,
                              std::vector<bool>* used);

  Result<std::string> Text(const Json& json, const char* key, const Place& place) const;
  Result<bool> Flag(const Json& json, const char* key, const Place& place) const;
  Result<std::vector<std::string>> Texts(const Json& json, const char* key, const Place& place,
                                         bool required) const;
  std::vector<MarkedPiece> Split(std::string_view text) const {
    return SplitMarkedText(text, tokenizer_);
  }

  SchemaOptions options_;
  const text::Tokenizer* tokenizer_;
  const Limits& limits_;
  Rules* rules_;
};

// Nothing is ignored: a key that is not understood is an error.
Status CheckKeys(const Json& json, std::initializer_list<std::string_view> known,
                 const Place& place) {
  if (!json.is_object()) return place.Error("an object is expected");
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    return place.Error(fmt::format("\"{}\" is not understood here", key.substr(0, 100)));
  }
  return {};
}

Result<std::string> StructureBuilder::Text(const Json& json, const char* key,
                                           const Place& place) const {
  if (!json.contains(key) || !json[key].is_string()) {
    return place.Error(fmt::format("\"{}\" must be a string", key));
  }
  return json[key].get<std::string>();
}

Result<bool> StructureBuilder::Flag(const Json& json, const char* key, const Place& place) const {
  if (!json.contains(key)) return false;
  if (!json[key].is_boolean()) return place.Error(fmt::format("\"{}\" must be true or false", key));
  return json[key].get<bool>();
}

// A list of strings that are not empty.
Result<std::vector<std::string>> StructureBuilder::Texts(const Json& json, const char* key,
                                                         const Place& place, bool required) const {
  std::vector<std::string> texts;
  if (!json.contains(key) && !required) return texts;
  const bool list = json.contains(key) && json[key].is_array() && !(required && json[key].empty());
  if (!list) return place.Error(fmt::format("\"{}\" must be a list of strings", key));
  for (const Json& one : json[key]) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty()) {
      return place.Error(fmt::format("\"{}\" must hold strings that are not empty", key));
    }
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

Result<Symbol> StructureBuilder::Structure(const Json& json) {
  const Place place{"structure"};
  if (!json.is_object()) return place.Error("an object is expected");
  if (json.contains("format")) {
    TW_TRY(CheckKeys(json, {"type", "format"}, place));
    return Format(json["format"], place.At("format"));
  }
  if (json.contains("structures")) return LegacyStructures(json, place);
  if (json.contains("triggers") && !json.contains("type")) return OwnTriggers(json, place);
  return Format(json, place);
}

Result<Symbol> StructureBuilder::LegacyStructures(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "structures", "triggers"}, place));
  if (!json["structures"].is_array()) return place.Error("\"structures\" must be a list");
  TW_ASSIGN(const auto triggers, Texts(json, "triggers", place, true));
  Json tags = Json::array();
  for (size_t i = 0; i < json["structures"].size(); ++i) {
    const Json& one = json["structures"][i];
    const Place at = place.At("structures").At(i);
    TW_TRY(CheckKeys(one, {"begin", "schema", "end"}, at));
    if (!one.contains("schema")) return at.Error("\"schema\" is missing");
    TW_ASSIGN(const std::string begin, Text(one, "begin", at));
    TW_ASSIGN(const std::string end, Text(one, "end", at));
    tags.push_back({{"begin", begin},
                    {"content", {{"type", "json_schema"}, {"json_schema", one["schema"]}}},
                    {"end", end}});
  }
  const Json format = {{"type", "triggered_tags"}, {"triggers", triggers}, {"tags", tags}};
  return TriggeredFormat(format, place);
}

// Each trigger is a whole beginning, with what follows it.
Result<Symbol> StructureBuilder::OwnTriggers(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"triggers", "at_least_one", "stop_after_first", "excludes"}, place));
  if (!json["triggers"].is_array()) return place.Error("\"triggers\" must be a list");
  std::vector<Tag> tags;
  std::vector<std::vector<MarkedPiece>> triggers;
  for (size_t i = 0; i < json["triggers"].size(); ++i) {
    TW_ASSIGN(Tag tag, OneTag(json["triggers"][i], place.At("triggers").At(i)));
    // A trigger is text or a token: of a beginning with both, the first of them.
    triggers.push_back({tag.begin[0]});
    tags.push_back(std::move(tag));
  }
  return Triggered(triggers, tags, json, place);
}

Result<Symbol> StructureBuilder::Format(const Json& json, const Place& place) {
  static constexpr FormatType kTypes[] = {
      {"const_string", &StructureBuilder::ConstString},
      {"json_schema", &StructureBuilder::SchemaFormat},
      {"regex", &StructureBuilder::RegexFormat},
      {"grammar", &StructureBuilder::GrammarFormat},
      {"any_text", &StructureBuilder::AnyTextFormat},
      {"token", &StructureBuilder::TokenFormat},
      {"sequence", &StructureBuilder::SequenceFormat},
      {"or", &StructureBuilder::OrFormat},
      {"optional", &StructureBuilder::OptionalFormat},
      {"star", &StructureBuilder::StarFormat},
      {"plus", &StructureBuilder::PlusFormat},
      {"tag", &StructureBuilder::TagFormat},
      {"tags_with_separator", &StructureBuilder::SeparatedFormat},
      {"triggered_tags", &StructureBuilder::TriggeredFormat},
      {"tool_calls", &StructureBuilder::ToolCallsFormat}};
  if (place.depth > 2 * limits_.nesting) return place.Error("nested too deeply");
  if (!json.is_object()) return place.Error("an object is expected");
  TW_ASSIGN(const std::string type, Text(json, "type", place));
  const bool constraint = type == "ebnf" || type == "json_object" ||
                          ((type == "regex" || type == "json_schema") && json.contains("content"));
  if (constraint) return AsInSoArgs(json, place);
  for (const FormatType& known : kTypes) {
    if (known.name == type) return (this->*known.build)(json, place);
  }
  return place.Error(fmt::format("there is no type \"{}\"", type.substr(0, 100)));
}

// What it does not say about JSON is as in the whole structure.
Result<Symbol> StructureBuilder::AsInSoArgs(const Json& json, const Place& place) {
  auto parsed = ParseConstraint(json);
  if (!parsed.ok()) return parsed.status().WithContext(place.path);
  const SchemaOptions said = std::exchange(parsed->schema, options_);
  if (json.contains("whitespace")) parsed->schema.whitespace = said.whitespace;
  if (json.contains("any_order")) parsed->schema.any_order = said.any_order;
  if (json.contains("strict")) parsed->schema.strict = said.strict;
  if (json.contains("open_formats")) parsed->schema.open_formats = said.open_formats;
  return AddConstraint(*parsed, tokenizer_, limits_, rules_);
}

Result<Symbol> StructureBuilder::Constrained(ConstraintKind kind, std::string content) {
  Constraint constraint;
  constraint.kind = kind;
  constraint.content = std::move(content);
  constraint.schema = options_;
  return AddConstraint(constraint, tokenizer_, limits_, rules_);
}

Result<Symbol> StructureBuilder::ConstString(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "value"}, place));
  TW_ASSIGN(const std::string value, Text(json, "value", place));
  return SymbolOfPieces(Split(value), rules_);
}

Result<Symbol> StructureBuilder::SchemaFormat(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "json_schema"}, place));
  if (!json.contains("json_schema")) return place.Error("\"json_schema\" is missing");
  return AddSchema(json["json_schema"], options_, limits_, rules_);
}

Result<Symbol> StructureBuilder::RegexFormat(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "pattern"}, place));
  TW_ASSIGN(std::string pattern, Text(json, "pattern", place));
  return Constrained(ConstraintKind::kRegex, std::move(pattern));
}

Result<Symbol> StructureBuilder::GrammarFormat(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "grammar"}, place));
  TW_ASSIGN(std::string grammar, Text(json, "grammar", place));
  return Constrained(ConstraintKind::kEbnf, std::move(grammar));
}

Result<Symbol> StructureBuilder::AnyTextFormat(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "excludes"}, place));
  TW_ASSIGN(const auto excludes, Texts(json, "excludes", place, false));
  return Rules::Regex(FreeText(excludes, &rules_->regexes()));
}

Result<Symbol> StructureBuilder::TokenFormat(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "token"}, place));
  TW_ASSIGN(const std::string name, Text(json, "token", place));
  const auto id = tokenizer_ == nullptr ? std::nullopt : tokenizer_->IdOfSpecial(name);
  if (!id) return place.Error(fmt::format("the tokenizer has no token {}", name.substr(0, 100)));
  return Rules::Token(*id);
}

Result<std::vector<Symbol>> StructureBuilder::Elements(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "elements"}, place));
  if (!json.contains("elements") || !json["elements"].is_array() || json["elements"].empty()) {
    return place.Error("\"elements\" must be a list that is not empty");
  }
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < json["elements"].size(); ++i) {
    TW_ASSIGN(const Symbol one, Format(json["elements"][i], place.At("elements").At(i)));
    symbols.push_back(one);
  }
  return symbols;
}

Result<Symbol> StructureBuilder::SequenceFormat(const Json& json, const Place& place) {
  TW_ASSIGN(const std::vector<Symbol> elements, Elements(json, place));
  return rules_->Sequence(elements);
}

Result<Symbol> StructureBuilder::OrFormat(const Json& json, const Place& place) {
  TW_ASSIGN(const std::vector<Symbol> elements, Elements(json, place));
  return rules_->Choice(elements);
}

Result<Symbol> StructureBuilder::OptionalFormat(const Json& json, const Place& place) {
  TW_ASSIGN(const Symbol content, Content(json, {}, place));
  return rules_->Optional(content);
}

Result<Symbol> StructureBuilder::StarFormat(const Json& json, const Place& place) {
  TW_ASSIGN(const Symbol content, Content(json, {}, place));
  return rules_->Repeat(content, 0, -1);
}

Result<Symbol> StructureBuilder::PlusFormat(const Json& json, const Place& place) {
  TW_ASSIGN(const Symbol content, Content(json, {}, place));
  return rules_->Repeat(content, 1, -1);
}

// The "content" of `json`; free text in it does not run over one of `ends`.
Result<Symbol> StructureBuilder::Content(const Json& json, const std::vector<std::string>& ends,
                                         const Place& place) {
  if (ends.empty()) TW_TRY(CheckKeys(json, {"type", "content", "begin", "end"}, place));
  if (!json.contains("content")) return place.Error("\"content\" is missing");
  const Json& content = json["content"];
  const Place at = place.At("content");
  const bool free =
      content.is_object() && content.contains("type") && content["type"] == "any_text";
  if (!free || ends.empty()) return Format(content, at);
  TW_TRY(CheckKeys(content, {"type", "excludes"}, at));
  TW_ASSIGN(const auto excludes, Texts(content, "excludes", at, false));
  std::vector<RegexId> choices;
  for (const std::string& end : ends) {
    choices.push_back(TextUpTo(end, ends, excludes, &rules_->regexes()));
  }
  return Rules::Regex(rules_->regexes().Either(choices));
}

Result<Tag> StructureBuilder::OneTag(const Json& json, const Place& place) {
  if (place.depth > 2 * limits_.nesting) return place.Error("nested too deeply");
  TW_TRY(CheckKeys(json, {"type", "begin", "content", "end"}, place));
  if (json.contains("type") && json["type"] != "tag")
    return place.Error("\"type\" must be \"tag\"");
  Tag tag;
  tag.place = place;
  TW_ASSIGN(const std::string begin, Text(json, "begin", place));
  tag.begin = Split(begin);
  if (tag.begin.empty()) tag.begin.emplace_back();
  std::vector<std::string> ends;
  if (json.contains("end") && json["end"].is_array()) {
    TW_ASSIGN(ends, Texts(json, "end", place, true));
  } else {
    TW_ASSIGN(const std::string end, Text(json, "end", place));
    ends.push_back(end);
  }
  const auto text_only = [&](const std::string& end) {
    const auto pieces = Split(end);
    return pieces.size() == 1 && pieces[0].token < 0 && !end.empty();
  };
  const bool free = json.contains("content") && json["content"].is_object() &&
                    json["content"].contains("type") && json["content"]["type"] == "any_text";
  if (free && std::ranges::all_of(ends, text_only)) {
    TW_ASSIGN(tag.rest, Content(json, ends, place));
    return tag;
  }
  std::vector<Symbol> choices;
  for (const std::string& end : ends) choices.push_back(SymbolOfPieces(Split(end), rules_));
  TW_ASSIGN(const Symbol content, Content(json, {}, place));
  const Symbol parts[] = {content, rules_->Choice(choices)};
  tag.rest = rules_->Sequence(parts, "tag");
  return tag;
}

Result<Symbol> StructureBuilder::TagFormat(const Json& json, const Place& place) {
  TW_ASSIGN(const Tag tag, OneTag(json, place));
  const Symbol parts[] = {SymbolOfPieces(tag.begin, rules_), tag.rest};
  return rules_->Sequence(parts, "tag");
}

Result<Symbol> StructureBuilder::SeparatedFormat(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "tags", "separator", "at_least_one", "stop_after_first"}, place));
  if (!json.contains("tags") || !json["tags"].is_array())
    return place.Error("\"tags\" must be a list");
  std::vector<Symbol> tags;
  for (size_t i = 0; i < json["tags"].size(); ++i) {
    TW_ASSIGN(const Symbol tag, TagFormat(json["tags"][i], place.At("tags").At(i)));
    tags.push_back(tag);
  }
  TW_ASSIGN(const std::string separator, Text(json, "separator", place));
  TW_ASSIGN(const bool some, Flag(json, "at_least_one", place));
  TW_ASSIGN(const bool one, Flag(json, "stop_after_first", place));
  const Symbol between = SymbolOfPieces(Split(separator), rules_);
  return rules_->Repeat(rules_->Choice(tags), some ? 1 : 0, one ? 1 : -1, &between);
}

Result<Symbol> StructureBuilder::TriggeredFormat(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(
      json, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"}, place));
  TW_ASSIGN(const auto texts, Texts(json, "triggers", place, true));
  if (!json.contains("tags") || !json["tags"].is_array())
    return place.Error("\"tags\" must be a list");
  std::vector<Tag> tags;
  for (size_t i = 0; i < json["tags"].size(); ++i) {
    TW_ASSIGN(Tag tag, OneTag(json["tags"][i], place.At("tags").At(i)));
    tags.push_back(std::move(tag));
  }
  std::vector<std::vector<MarkedPiece>> triggers;
  for (const std::string& text : texts) triggers.push_back(Split(text));
  return Triggered(triggers, tags, json, place);
}

// Calls as DeepSeek-V4.1 writes them.
Result<Symbol> StructureBuilder::ToolCallsFormat(const Json& json, const Place& place) {
  TW_TRY(CheckKeys(json, {"type", "tools", "tool_choice", "parallel_tool_calls", "block_open"},
                   place));
  if (!json.contains("tools")) return place.Error("\"tools\" is missing");
  TW_ASSIGN(const ToolCallOptions options, ParseToolCallOptions(json, options_));
  return AddToolCalls(json["tools"], options, limits_, rules_);
}

// What may follow a trigger: the rests of the tags that begin with it.
Result<Symbol> StructureBuilder::AfterTrigger(const std::vector<MarkedPiece>& trigger,
                                              const std::vector<Tag>& tags,
                                              std::vector<bool>* used) {
  std::vector<Symbol> choices;
  for (size_t i = 0; i < tags.size(); ++i) {
    std::vector<MarkedPiece> begin = tags[i].begin;
    const bool token = trigger[0].token >= 0;
    if (token ? begin[0] != trigger[0] : !begin[0].text.starts_with(trigger[0].text)) continue;
    if (token) {
      begin.erase(begin.begin());
    } else {
      begin[0].text.erase(0, trigger[0].text.size());
    }
    (*used)[i] = true;
    const Symbol parts[] = {SymbolOfPieces(begin, rules_), tags[i].rest};
    choices.push_back(rules_->Sequence(parts, "tag"));
  }
  return rules_->Choice(choices, "tags");
}

Result<Symbol> StructureBuilder::Triggered(const std::vector<std::vector<MarkedPiece>>& triggers,
                                           const std::vector<Tag>& tags, const Json& json,
                                           const Place& place) {
  TW_ASSIGN(const bool some, Flag(json, "at_least_one", place));
  TW_ASSIGN(const bool one, Flag(json, "stop_after_first", place));
  TW_ASSIGN(const auto excludes, Texts(json, "excludes", place, false));
  std::vector<std::string> marks;
  for (const auto& trigger : triggers) {
    const bool simple = trigger.size() == 1 && (trigger[0].token >= 0 || !trigger[0].text.empty());
    if (!simple) return place.Error("a trigger is text, or one special token, and not empty");
    if (trigger[0].token < 0) marks.push_back(trigger[0].text);
  }
  std::vector<std::string> without = marks;
  without.insert(without.end(), excludes.begin(), excludes.end());
  const Symbol free = Rules::Regex(FreeText(without, &rules_->regexes()));
  std::vector<bool> used(tags.size(), false);
  std::vector<Symbol> segments;
  for (const auto& trigger : triggers) {
    TW_ASSIGN(const Symbol after, AfterTrigger(trigger, tags, &used));
    const bool token = trigger[0].token >= 0;
    const Symbol before =
        token ? free : Rules::Regex(TextUpTo(trigger[0].text, marks, excludes, &rules_->regexes()));
    const Symbol mark = token ? Rules::Token(trigger[0].token) : Rules::Regex(kEmptyString);
    const Symbol parts[] = {before, mark, after};
    segments.push_back(rules_->Sequence(parts, "segment"));
  }
  for (size_t i = 0; i < tags.size(); ++i) {
    if (!used[i]) return tags[i].place.Error("\"begin\" starts with none of the triggers");
  }
  const Symbol segment = rules_->Choice(segments, "segments");
  if (one) {
    const Symbol choices[] = {segment, free};
    return some ? segment : rules_->Choice(choices, "structure");
  }
  const Symbol parts[] = {rules_->Repeat(segment, some ? 1 : 0, -1), free};
  return rules_->Sequence(parts, "structure");
}

}  // namespace

Result<Symbol> AddStructure(const Json& structure, const SchemaOptions& options,
                            const text::Tokenizer* tokenizer, const Limits& limits, Rules* rules) {
  return StructureBuilder(options, tokenizer, limits, rules).Structure(structure);
}

}  // namespace thalweg::grammar
