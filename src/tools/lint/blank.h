// Takes out of C++ text what is not code, keeping every line where it was.
#pragma once

#include <string>
#include <string_view>

namespace thalweg::tools::lint {

// Comments become blanks. A literal becomes two quotes and blanks, so that braces, banned words and
// comment marks inside strings are not seen. Knows escapes, raw strings and digit separators.
std::string BlankCommentsAndLiterals(std::string_view text);

// Directive lines with their continuations become blanks. `code` is free of comments.
std::string BlankDirectives(std::string_view code);

// Text between #else or #elif and its #endif becomes blanks: what is left has balanced braces even
// where both branches open the same one.
std::string BlankElseBranches(std::string_view code);

}  // namespace thalweg::tools::lint
