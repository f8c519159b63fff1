// Finds the functions of a C++ or CUDA file by matching braces; no compiler is asked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg::tools::lint {

struct Function {
  std::string name;     // "Shape::elements", "operator==", "TEST(Philox, UnitIsOpen)"
  int first_line = 0;   // where its declaration starts
  int last_line = 0;    // of the closing brace
  bool device = false;  // __global__ or __device__

  int lines() const { return last_line - first_line + 1; }
};

// Every function with a body, in order. `code` is the file after BlankCommentsAndLiterals. Bodies
// of classes and namespaces are looked into; lambdas and local classes count with the function
// around them. Nothing when the braces do not balance.
std::optional<std::vector<Function>> FindFunctions(std::string_view code);

}  // namespace thalweg::tools::lint
