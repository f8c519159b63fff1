// Rows of options that several commands have.
#pragma once

#include <string>
#include <utility>

#include "base/options.h"

namespace thalweg::tools {

// A whole number in [least, most]; an empty fallback: none.
inline base::OptionRow CountRow(std::string name, std::string help, std::string fallback,
                                double least = 1, double most = 1e6) {
  return {.name = std::move(name),
          .kind = base::OptionKind::kInteger,
          .help = std::move(help),
          .fallback = std::move(fallback),
          .least = least,
          .most = most};
}

}  // namespace thalweg::tools
