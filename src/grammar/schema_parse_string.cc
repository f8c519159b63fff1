// The keywords of strings.
#include <algorithm>
#include <array>

#include "grammar/formats.h"
#include "grammar/schema_parse.h"

namespace thalweg::grammar {
namespace {

using base::Json;

constexpr std::array<std::string_view, 8> kOpenFormats = {"int32", "int64",  "uint32",   "uint64",
                                                          "float", "double", "password", "binary"};

}  // namespace

Status SchemaParser::ReadStrings(const Site& site) {
  TW_TRY(ReadLength(site));
  TW_TRY(ReadPattern(site));
  return ReadFormat(site);
}

Status SchemaParser::ReadLength(const Site& site) {
  TW_ASSIGN(site.schema.length.least, LeastOf(site, "minLength"));
  TW_ASSIGN(site.schema.length.most, CountOf(site, "maxLength", -1));
  return {};
}

Status SchemaParser::ReadPattern(const Site& site) {
  const Json* pattern = site.Find("pattern");
  if (pattern == nullptr) return {};
  if (!pattern->is_string()) return site.Wrong("pattern", "must be a string");
  const Result<RegexId> parsed = context_.languages.Pattern(pattern->get_ref<const std::string&>());
  if (!parsed.ok()) return parsed.status().WithContext(site.place.path + "/pattern");
  site.schema.strings = context_.regexes.Both(site.schema.strings, parsed.value());
  return {};
}

// Formats that say nothing about the text (the OpenAPI registry), or speak of numbers only.
Status SchemaParser::ReadFormat(const Site& site) {
  const Json* format = site.Find("format");
  if (format == nullptr) return {};
  if (!format->is_string()) return site.Wrong("format", "must be a string");
  const auto& name = format->get_ref<const std::string&>();
  if (std::find(kOpenFormats.begin(), kOpenFormats.end(), name) != kOpenFormats.end()) return {};
  // What applies to strings alone says nothing about other types, whatever it is.
  if ((site.schema.types & kStringType) == 0) return {};
  if (!KnownFormat(name) && context_.options.open_formats) return {};
  const Result<RegexId> text = context_.languages.Format(name);
  if (!text.ok()) return site.Refuse("format", text.status().message());
  site.schema.strings = context_.regexes.Both(site.schema.strings, text.value());
  return {};
}

}  // namespace thalweg::grammar
