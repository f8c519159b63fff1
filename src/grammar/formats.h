// The formats of JSON Schema that are regular languages, exact to their RFCs.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/regex_syntax.h"

namespace thalweg::grammar {

// `format` (JSON Schema validation 7.3): date, time, date-time (RFC 3339: leap days, offsets, and
// leap seconds where it is 23:59:60 UTC), duration (RFC 3339 appendix A), uuid (RFC 4122), email
// (RFC 5321), hostname (RFC 1123), ipv4, ipv6 (RFC 4291), uri, uri-reference (RFC 3986), iri,
// iri-reference (RFC 3987), uri-template (RFC 6570), json-pointer, relative-json-pointer (RFC
// 6901). Any other one, known or not, is kUnsupported: idn-hostname and idn-email need tables of
// Unicode, regex is not regular.
//
// Inside a JSON string, formats of ASCII alone (all but the last five) are written without escapes
// but those that JSON demands: "2020-01-01" and not "2020\u002d01-01".
Result<RegexId> FormatRegex(std::string_view format, CharacterEncoding encoding, RegexArena* arena);
bool KnownFormat(std::string_view format);  // FormatRegex understands it

}  // namespace thalweg::grammar
