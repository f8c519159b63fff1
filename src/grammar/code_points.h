// Characters to bytes, in every spelling of an encoding.
#pragma once

#include <unicode/uniset.h>

#include <cstdint>

#include "grammar/regex_arena.h"
#include "grammar/regex_syntax.h"

namespace thalweg::grammar {

// One character of the set; surrogates in it are left out.
RegexId CharacterOf(const icu::UnicodeSet& set, CharacterEncoding encoding, RegexArena* arena);

}  // namespace thalweg::grammar
