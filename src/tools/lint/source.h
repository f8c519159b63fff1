// One file of the repository, as the lint rules see it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::tools::lint {

struct Finding {
  std::string path;  // relative to the root of the repository
  int line = 0;      // from 1; 0 speaks of the whole file
  std::string message;
};
using Findings = std::vector<Finding>;

// A text file. For C++ and CUDA sources `code` is `text` with the inside of comments and literals
// blanked, byte for byte and line for line; for other files it stays empty.
struct SourceFile {
  std::string path;
  std::string text;
  std::string code;

  std::string room() const;      // "model" for src/model/x.cc, "" outside src
  bool is_cpp() const;           // .h .cc .cu .cuh
  bool is_header() const;        // .h .cuh
  bool is_test_program() const;  // *_test.cc, *_fuzz.cc and the like
  bool is_test() const;          // the same, and everything in room `tests`
};

SourceFile MakeSource(std::string path, std::string text);

// Lines without their ends; a last line without an end counts.
std::vector<std::string_view> SplitLines(std::string_view text);

// The text files that the rules look at: sources, scripts, build files and documents, in path
// order. Build folders, hidden folders, test data and model folders are left out, save their
// documents.
Result<std::vector<SourceFile>> ReadTree(const std::filesystem::path& root);

}  // namespace thalweg::tools::lint
