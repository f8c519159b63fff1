#include "tools/lint/source.h"

#include <algorithm>
#include <array>

#include "base/mapped_file.h"
#include "tools/lint/blank.h"

namespace thalweg::tools::lint {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = 4u << 20;

bool EndsWithOneOf(std::string_view path, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

bool IsSkippedFolder(const std::string& path, const std::string& name) {
  const bool hidden = name.starts_with('.') && name != ".ci";
  const bool built = name == "build" || name.starts_with("build-") || name == "node_modules";
  return hidden || built || path == "tests/data";
}

bool IsText(const std::string& path) {
  if (path.starts_with("models/")) return path.ends_with(".md");
  const std::string name = fs::path(path).filename().string();
  if (name == "Makefile" || name == "NOTICE" || path == ".ci/run") return true;
  return EndsWithOneOf(path, {".h", ".cc", ".cu", ".cuh", ".md", ".txt", ".cmake", ".sh", ".py",
                              ".js", ".json", ".yml", ".html", ".css"});
}

// Paths relative to the root, sorted, so that the output does not depend on the file system.
std::vector<std::string> ListFiles(const fs::path& root) {
  std::vector<std::string> paths;
  fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied);
  for (; it != fs::recursive_directory_iterator(); ++it) {
    const std::string path = it->path().lexically_relative(root).generic_string();
    const std::string name = it->path().filename().string();
    if (it->is_directory() && IsSkippedFolder(path, name)) it.disable_recursion_pending();
    if (it->is_regular_file() && IsText(path)) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::string SourceFile::room() const {
  if (!path.starts_with("src/")) return {};
  const size_t slash = path.find('/', 4);
  return slash == std::string::npos ? std::string() : path.substr(4, slash - 4);
}

bool SourceFile::is_cpp() const { return EndsWithOneOf(path, {".h", ".cc", ".cu", ".cuh"}); }

bool SourceFile::is_header() const { return EndsWithOneOf(path, {".h", ".cuh"}); }

bool SourceFile::is_test_program() const {
  return EndsWithOneOf(path, {"_test.cc", "_test.cu", "_fuzz.cc"});
}

bool SourceFile::is_test() const { return room() == "tests" || is_test_program(); }

SourceFile MakeSource(std::string path, std::string text) {
  SourceFile file{.path = std::move(path), .text = std::move(text), .code = {}};
  if (file.is_cpp()) file.code = BlankCommentsAndLiterals(file.text);
  return file;
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Result<std::vector<SourceFile>> ReadTree(const fs::path& root) {
  if (!fs::exists(root / "layers.txt")) {
    return base::NotFound(root.string() + " holds no layers.txt: name the root of the repository");
  }
  std::vector<SourceFile> files;
  for (const std::string& path : ListFiles(root)) {
    TW_ASSIGN(std::string text, base::ReadFile(root / path, kMaxFileBytes));
    files.push_back(MakeSource(path, std::move(text)));
  }
  return files;
}

}  // namespace thalweg::tools::lint
