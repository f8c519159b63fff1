// Names that come from users and servers, checked before they become parts of paths and addresses.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace thalweg::hub {

// A Hugging Face name: "org/name" or "name", each of letters, digits, '.', '_', '-', with neither
// '-' nor '.' at the ends, without "--" and "..", 96 bytes at most (the Hub's rules).
Status CheckRepoName(std::string_view name);

// Branch, tag or commit: letters, digits, '.', '_', '-', '/' in parts as for files below.
Status CheckRevision(std::string_view revision);

// The name of a file in a repository: relative, '/' between parts, no empty, "." or ".." part, no
// control character or backslash, parts and whole within limits.h.
Status CheckFileName(std::string_view name);

// 40 lower-case hexadecimal digits.
bool IsCommit(std::string_view text);
// `digits` lower-case hexadecimal digits.
bool IsLowerHex(std::string_view text, size_t digits);

// Whether a --model value means a place on disk: absolute, "./x", "../x", "~", "a/b/c", "a/".
bool LooksLikePath(std::string_view name);

// "models--org--name", the folder in the cache.
std::string CacheFolderName(std::string_view repo_name);

// Percent-encodes everything but unreserved characters (RFC 3986 2.3) and those of `keep`.
std::string PercentEncode(std::string_view text, std::string_view keep);

}  // namespace thalweg::hub
