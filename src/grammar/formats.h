// The formats of JSON Schema that are regular languages, exact to their RFCs.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/regex_syntax.h"

namespace thalweg::grammar {

// `format` (JSON Schema validation 7.3) over characters in the encoding: date, time, date-time
// (RFC 3339: leap days, offsets, and leap seconds at 23:59:60 UTC), duration, uuid, email,
// idn-email, hostname, ipv4, ipv6, uri, uri-reference, iri, iri-reference, uri-template,
// json-pointer, relative-json-pointer. Any other one, known or not, is kUnsupported.
Result<RegexId> FormatRegex(std::string_view format, CharacterEncoding encoding, RegexArena* arena);
bool KnownFormat(std::string_view format);

}  // namespace thalweg::grammar
