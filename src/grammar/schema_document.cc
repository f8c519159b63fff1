#include "grammar/schema_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "grammar/schema_uri.h"

namespace thalweg::grammar {
namespace {

using base::Json;

constexpr std::array kSchemaKeywords = {"additionalProperties",
                                        "items",
                                        "additionalItems",
                                        "contains",
                                        "not",
                                        "if",
                                        "then",
                                        "else",
                                        "propertyNames",
                                        "unevaluatedItems",
                                        "unevaluatedProperties",
                                        "contentSchema"};
constexpr std::array kMapKeywords = {"properties",  "patternProperties", "$defs",
                                     "definitions", "dependentSchemas",  "dependencies"};
constexpr std::array kListKeywords = {"allOf", "anyOf", "oneOf", "prefixItems", "items"};

bool IsLegacy(const Json& root) {
  const auto schema = root.is_object() ? root.find("$schema") : root.end();
  if (!root.is_object() || schema == root.end() || !schema->is_string()) return false;
  const auto& uri = schema->get_ref<const std::string&>();
  return uri.find("/draft-0") != std::string::npos;
}

const std::string* StringMember(const Json& json, const char* key) {
  const auto member = json.find(key);
  if (member == json.end() || !member->is_string()) return nullptr;
  return member->get_ptr<const std::string*>();
}

bool IsDeeper(const Json& json, int64_t levels) {
  if (!json.is_structured()) return false;
  return levels == 0 || std::any_of(json.begin(), json.end(),
                                    [&](const Json& child) { return IsDeeper(child, levels - 1); });
}

std::string Unescaped(std::string_view step) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    const bool escape = step[i] == '~' && i + 1 < step.size();
    out += escape ? (step[++i] == '1' ? '/' : '~') : step[i];
  }
  return out;
}

const Json* ElementAt(const Json& array, std::string_view step) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  const bool number = error == std::errc() && end == step.data() + step.size();
  return number && index < array.size() ? &array[index] : nullptr;
}

const Json* MemberAt(const Json& json, std::string_view step) {
  if (json.is_array()) return ElementAt(json, step);
  if (!json.is_object()) return nullptr;
  const auto member = json.find(Unescaped(step));
  return member == json.end() ? nullptr : &*member;
}

}  // namespace

std::string SchemaMessage(std::string_view path, std::string_view keyword,
                          std::string_view problem) {
  return fmt::format("schema at {}: {}: {}", path.empty() ? "the root" : path, keyword, problem);
}

Status SchemaError(std::string_view path, std::string_view keyword, std::string_view problem) {
  return base::InvalidArgument(SchemaMessage(path, keyword, problem));
}

Status SchemaUnsupported(std::string_view path, std::string_view keyword,
                         std::string_view problem) {
  return base::Unsupported(SchemaMessage(path, keyword, problem));
}

std::string PointerStep(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') out += "~0";
    if (c == '/') out += "~1";
    if (c != '~' && c != '/') out += c;
  }
  return out;
}

// Walks the positions where schemas may stand: an "$id" in an enum names nothing.
class SchemaDocument::Scanner {
 public:
  Scanner(SchemaDocument* document, int64_t nesting) : document_(*document), nesting_(nesting) {}

  Status Visit(const SchemaPlace& place, int64_t depth) {
    if (depth > nesting_) {
      return base::OutOfRange(
          fmt::format("schema at {}: more than {} schemas in each other", place.path, nesting_));
    }
    if (!place.json->is_object()) return {};
    AddNames(place);
    return VisitChildren(place, depth + 1);
  }

 private:
  void AddName(std::string name, const SchemaPlace& place) {
    const auto [entry, fresh] = document_.names_.try_emplace(std::move(name), place);
    if (!fresh) entry->second.json = nullptr;
  }

  void AddNames(const SchemaPlace& place) {
    const Json& json = *place.json;
    if (place.base != outer_base_ || place.path.empty()) AddName(place.base, place);
    for (const char* key : {"$anchor", "$dynamicAnchor"}) {
      const std::string* anchor = StringMember(json, key);
      if (anchor == nullptr) continue;
      AddName(place.base + "#" + *anchor, place);
      if (key[1] == 'd') ++document_.dynamic_anchors_[*anchor];
    }
    const std::string* id = StringMember(json, "$id");
    if (id != nullptr && id->starts_with("#") && !id->starts_with("#/") && id->size() > 1) {
      AddName(place.base + *id, place);
    }
  }

  Status VisitChild(const SchemaPlace& parent, const std::string& steps, const Json& json,
                    int64_t depth) {
    const SchemaPlace child = document_.Child(parent, steps, json);
    outer_base_ = parent.base;
    return Visit(child, depth);
  }

  Status VisitElements(const SchemaPlace& place, const std::string& key, int64_t depth) {
    const Json& list = (*place.json)[key];
    for (size_t i = 0; i < list.size(); ++i) {
      TW_TRY(VisitChild(place, fmt::format("{}/{}", key, i), list[i], depth));
    }
    return {};
  }

  Status VisitMembers(const SchemaPlace& place, const std::string& key, int64_t depth) {
    for (const auto& [name, child] : (*place.json)[key].items()) {
      TW_TRY(VisitChild(place, key + "/" + PointerStep(name), child, depth));
    }
    return {};
  }

  Status VisitChildren(const SchemaPlace& place, int64_t depth) {
    const Json& json = *place.json;
    for (const char* key : kSchemaKeywords) {
      const auto child = json.find(key);
      if (child != json.end() && child->is_object()) {
        TW_TRY(VisitChild(place, key, *child, depth));
      }
    }
    for (const char* key : kMapKeywords) {
      const auto child = json.find(key);
      if (child != json.end() && child->is_object()) TW_TRY(VisitMembers(place, key, depth));
    }
    for (const char* key : kListKeywords) {
      const auto child = json.find(key);
      if (child != json.end() && child->is_array()) TW_TRY(VisitElements(place, key, depth));
    }
    return {};
  }

  SchemaDocument& document_;
  int64_t nesting_;
  std::string outer_base_;
};

Result<SchemaDocument> SchemaDocument::Scan(const Json& root, const Limits& limits) {
  // Two levels of JSON to one of a schema: {"properties": {"a": {}}}.
  if (IsDeeper(root, 2 * limits.nesting + 16)) {
    return base::OutOfRange(
        fmt::format("schema: nested too deep; at most {} schemas in each other", limits.nesting));
  }
  SchemaDocument document;
  document.legacy_ = IsLegacy(root);
  document.root_ = {&root, "", ""};
  if (root.is_object()) document.root_.base = document.BaseOf("", root);
  Scanner scanner(&document, limits.nesting);
  TW_TRY(scanner.Visit(document.root_, 1));
  return document;
}

std::string SchemaDocument::BaseOf(std::string_view base, const Json& json) const {
  if (!json.is_object() || (legacy_ && json.contains("$ref"))) return std::string(base);
  const std::string* id = StringMember(json, "$id");
  if (id == nullptr && legacy_) id = StringMember(json, "id");
  if (id == nullptr) return std::string(base);
  return SplitFragment(ResolveUri(base, *id)).document;
}

SchemaPlace SchemaDocument::Child(const SchemaPlace& parent, std::string_view steps,
                                  const Json& json) const {
  return {&json, fmt::format("{}/{}", parent.path, steps), BaseOf(parent.base, json)};
}

Result<SchemaPlace> SchemaDocument::Resolve(std::string_view reference, const SchemaPlace& from,
                                            std::string_view keyword) const {
  const UriParts uri = SplitFragment(ResolveUri(from.base, reference));
  const bool pointer = uri.fragment.empty() || uri.fragment.front() == '/';
  const auto named = names_.find(pointer ? uri.document : uri.document + "#" + uri.fragment);
  if (named == names_.end()) {
    return SchemaUnsupported(from.path, keyword,
                             fmt::format("\"{}\" is not in this document; only schemas in the "
                                         "document itself can be referred to",
                                         reference));
  }
  if (named->second.json == nullptr) {
    return SchemaError(from.path, keyword, fmt::format("\"{}\" has several targets", reference));
  }
  SchemaPlace place = named->second;
  for (size_t at = 0; pointer && at < uri.fragment.size();) {
    const size_t end = std::min(uri.fragment.find('/', at + 1), uri.fragment.size());
    const std::string step = uri.fragment.substr(at + 1, end - at - 1);
    const Json* member = MemberAt(*place.json, step);
    if (member == nullptr) {
      return SchemaError(from.path, keyword, fmt::format("\"{}\" does not exist", reference));
    }
    place = Child(place, step, *member);
    at = end;
  }
  return place;
}

int64_t SchemaDocument::CountDynamicAnchors(std::string_view name) const {
  const auto found = dynamic_anchors_.find(name);
  return found == dynamic_anchors_.end() ? 0 : found->second;
}

}  // namespace thalweg::grammar
