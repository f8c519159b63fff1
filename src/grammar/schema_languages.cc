#include "grammar/schema_languages.h"

#include "grammar/formats.h"
#include "grammar/regex_syntax.h"

namespace thalweg::grammar {
namespace {

constexpr CharacterEncoding kEncoding = CharacterEncoding::kJsonString;

// Different bounds have different keys: a number has no comma.
std::string KeyOf(const NumberBounds& bounds) {
  std::string key = bounds.integer ? "i" : "n";
  for (const auto* bound : {&bounds.minimum, &bounds.exclusive_minimum, &bounds.maximum,
                            &bounds.exclusive_maximum, &bounds.multiple_of}) {
    key += "," + bound->value_or("");
  }
  return key;
}

}  // namespace

template <typename Make>
Result<RegexId> SchemaLanguages::Remember(std::string key, Make make) {
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  TW_ASSIGN(const RegexId made, make());
  known_.emplace(std::move(key), made);
  return made;
}

RegexId SchemaLanguages::AnyText() {
  return Remember("a", [&]() -> Result<RegexId> { return grammar::AnyText(kEncoding, &regexes_); })
      .value();
}

RegexId SchemaLanguages::OfLength(const Counts& length) {
  const RegexId character = Remember("c", [&]() -> Result<RegexId> {
                              return AnyCharacter(kEncoding, &regexes_);
                            }).value();
  return regexes_.Repeat(character, length.least, length.most);
}

RegexId SchemaLanguages::Text(const std::string& text) {
  return Remember("t" + text,
                  [&]() -> Result<RegexId> { return EncodedText(text, kEncoding, &regexes_); })
      .value();
}

RegexId SchemaLanguages::OtherText(RegexId text) {
  return regexes_.Both(AnyText(), regexes_.Not(text));
}

Result<RegexId> SchemaLanguages::Pattern(const std::string& pattern) {
  return Remember("p" + pattern, [&] {
    return ParseRegex(pattern, RegexDialect::kSearch, kEncoding, limits_, &regexes_);
  });
}

Result<RegexId> SchemaLanguages::Format(const std::string& format) {
  return Remember("f" + format, [&] { return FormatRegex(format, kEncoding, &regexes_); });
}

Result<RegexId> SchemaLanguages::Numbers(const NumberBounds& bounds) {
  return Remember(KeyOf(bounds), [&] { return NumberRange(bounds, limits_, &regexes_); });
}

}  // namespace thalweg::grammar
