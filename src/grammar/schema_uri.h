// URI references of $id and $ref, resolved against a base (RFC 3986 5.2).
#pragma once

#include <string>
#include <string_view>

namespace thalweg::grammar {

// The target of `reference` against `base`, fragment included. `base` may be empty or relative
// itself: the result is then as relative.
std::string ResolveUri(std::string_view base, std::string_view reference);

struct UriParts {
  std::string document = {};  // without '#'
  std::string fragment = {};  // percent-decoded, without '#'
};
UriParts SplitFragment(std::string_view uri);

}  // namespace thalweg::grammar
