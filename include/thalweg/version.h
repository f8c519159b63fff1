// Which library this is.
#pragma once

#include "thalweg/export.h"

namespace thalweg {

// "major.minor.patch" of the library that is linked or loaded.
THALWEG_API const char* Version();

}  // namespace thalweg
