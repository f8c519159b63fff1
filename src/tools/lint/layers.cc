#include "tools/lint/layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace thalweg::tools::lint {
namespace {

std::vector<std::string> SplitWords(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

void AddRoom(const std::string& room, std::string_view rest, int line, Layers& layers,
             Findings& findings) {
  const auto complain = [&](std::string message) {
    findings.push_back({"layers.txt", line, std::move(message)});
  };
  if (layers.Knows(room)) complain(fmt::format("room {} stands here twice", room));
  std::set<std::string>& allowed = layers.allowed[room];
  for (const std::string& other : SplitWords(rest)) {
    if (other == "*") {
      layers.everything.insert(room);
    } else if (layers.everything.contains(other)) {
      complain(fmt::format("nothing may include room {}", other));
    } else if (std::find(layers.order.begin(), layers.order.end(), other) == layers.order.end()) {
      complain(fmt::format("room {} is not on a line above: an edge up, or a cycle", other));
    } else {
      allowed.insert(other);
    }
  }
  layers.order.push_back(room);
}

// What stands between <> or "" on an #include line, with its opening mark; "" on other lines.
std::string_view IncludeTarget(std::string_view code_line, std::string_view text_line) {
  const size_t hash = code_line.find_first_not_of(" \t");
  if (hash == std::string_view::npos || code_line[hash] != '#') return {};
  const size_t word = code_line.find_first_not_of(" \t", hash + 1);
  if (word == std::string_view::npos || !code_line.substr(word).starts_with("include")) return {};
  const size_t open = text_line.find_first_of("<\"", word);
  if (open == std::string_view::npos) return {};
  const size_t close = text_line.find_first_of(">\"", open + 1);
  if (close == std::string_view::npos) return {};
  return text_line.substr(open, close - open);
}

struct Include {
  int line = 0;
  bool quoted = false;
  std::string target;
};

std::vector<Include> IncludesOf(const SourceFile& file) {
  const auto code = SplitLines(file.code);
  const auto text = SplitLines(file.text);
  std::vector<Include> includes;
  for (size_t i = 0; i < code.size(); ++i) {
    const std::string_view target = IncludeTarget(code[i], text[i]);
    if (target.empty()) continue;
    includes.push_back(
        {static_cast<int>(i) + 1, target.front() == '"', std::string(target.substr(1))});
  }
  return includes;
}

std::string RoomOfTarget(const std::string& target) {
  const size_t slash = target.find('/');
  return slash == std::string::npos ? std::string() : target.substr(0, slash);
}

std::string CheckEdge(const SourceFile& file, const Include& include, const Layers& layers) {
  const std::string to = RoomOfTarget(include.target);
  if (to.empty()) {
    return fmt::format("#include \"{}\": write the path from src, room first", include.target);
  }
  if (!layers.Knows(to)) {
    return fmt::format("#include \"{}\": {} is no room of layers.txt; outside headers go in <>",
                       include.target, to);
  }
  if (to == file.room()) return {};
  const bool top = layers.everything.contains(to);
  if (top && !layers.everything.contains(file.room())) {
    return fmt::format("nothing may include room {}", to);
  }
  if (file.is_test() || layers.Allows(file.room(), to)) return {};
  return fmt::format("layers.txt lets {} include {{{}}}, not {}", file.room(),
                     fmt::join(layers.allowed.at(file.room()), " "), to);
}

// CMake text without its comments.
std::string WithoutHashComments(std::string_view text) {
  std::string out;
  for (std::string_view line : SplitLines(text)) {
    out += line.substr(0, line.find('#'));
    out += '\n';
  }
  return out;
}

bool IsKeyword(const std::string& word) {
  return std::all_of(word.begin(), word.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

struct RoomCall {
  bool found = false;
  std::set<std::string> depends;
};

// The DEPENDS of the thalweg_room(...) call in a CMakeLists.txt.
RoomCall ReadRoomCall(std::string_view cmake_text) {
  const std::string text = WithoutHashComments(cmake_text);
  const size_t open = text.find("thalweg_room(");
  RoomCall call;
  if (open == std::string::npos) return call;
  call.found = true;
  const size_t begin = open + std::string_view("thalweg_room(").size();
  bool depends = false;
  for (const std::string& word : SplitWords(text.substr(begin, text.find(')', begin) - begin))) {
    if (IsKeyword(word)) {
      depends = word == "DEPENDS";
    } else if (depends) {
      call.depends.insert(word);
    }
  }
  return call;
}

bool IsCudaHeader(const std::string& target) {
  constexpr std::array<std::string_view, 11> kPrefixes = {
      "cuda",       "cublas",  "cudnn",
      "cupti",      "curand",  "nccl",
      "nvToolsExt", "nvtx",    "cooperative_groups",
      "cub/",       "cutlass/"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return target.starts_with(prefix); });
}

bool MayIncludeCuda(const SourceFile& file) {
  const std::string& path = file.path;
  return path.starts_with("src/kernels/cuda/") || path.starts_with("src/comm/") ||
         path.starts_with("src/exec/graph_cache") ||
         (path.starts_with("src/kvpool/") && path.ends_with(".cu"));
}

const SourceFile* FindFile(const std::vector<SourceFile>& files, std::string_view path) {
  for (const SourceFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace

bool Layers::Allows(const std::string& from, const std::string& to) const {
  if (everything.contains(from)) return true;
  const auto row = allowed.find(from);
  return row != allowed.end() && row->second.contains(to);
}

Layers ParseLayers(std::string_view text, Findings& findings) {
  Layers layers;
  int number = 0;
  for (std::string_view line : SplitLines(text)) {
    ++number;
    line = line.substr(0, line.find('#'));
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      AddRoom(std::string(line.substr(0, colon)), line.substr(colon + 1), number, layers, findings);
    } else if (!SplitWords(line).empty()) {
      findings.push_back({"layers.txt", number, "a line reads \"room: rooms it may include\""});
    }
  }
  return layers;
}

std::set<std::string> IncludedRooms(const SourceFile& file) {
  std::set<std::string> rooms;
  for (const Include& include : IncludesOf(file)) {
    if (include.quoted) rooms.insert(RoomOfTarget(include.target));
  }
  return rooms;
}

void CheckIncludes(const SourceFile& file, const Layers& layers, Findings& findings) {
  if (!layers.Knows(file.room())) {
    findings.push_back({file.path, 0, fmt::format("room {} is not in layers.txt", file.room())});
    return;
  }
  for (const Include& include : IncludesOf(file)) {
    if (!include.quoted) continue;
    const std::string message = CheckEdge(file, include, layers);
    if (!message.empty()) findings.push_back({file.path, include.line, message});
  }
}

void CheckDepends(const SourceFile& cmake, const Layers& layers,
                  const std::set<std::string>& included, Findings& findings) {
  const std::string room = cmake.room();
  const RoomCall call = ReadRoomCall(cmake.text);
  if (!call.found || layers.everything.contains(room) || !layers.Knows(room)) return;
  const std::set<std::string>& allowed = layers.allowed.at(room);
  if (call.depends != allowed) {
    findings.push_back({cmake.path, 0,
                        fmt::format("DEPENDS {{{}}} differs from layers.txt {{{}}}",
                                    fmt::join(call.depends, " "), fmt::join(allowed, " "))});
  }
  for (const std::string& other : included) {
    if (other == room || call.depends.contains(other)) continue;
    findings.push_back(
        {cmake.path, 0, fmt::format("the room includes {0}, DEPENDS has no {0}", other)});
  }
}

void CheckCudaHeaders(const std::vector<SourceFile>& files, Findings& findings) {
  std::string tensor_file;
  for (const SourceFile& file : files) {
    if (!file.is_cpp() || MayIncludeCuda(file)) continue;
    for (const Include& include : IncludesOf(file)) {
      if (!IsCudaHeader(include.target)) continue;
      if (file.room() == "tensor" && tensor_file.empty()) tensor_file = file.path;
      if (file.path == tensor_file && !file.is_header()) continue;
      findings.push_back(
          {file.path, include.line,
           fmt::format("<{}>: CUDA headers stay in kernels/cuda, comm, kvpool/*.cu, the "
                       "graph cache of exec and one .cc file of tensor",
                       include.target)});
    }
  }
}

void CheckLayers(const std::vector<SourceFile>& files, Findings& findings) {
  const SourceFile* table = FindFile(files, "layers.txt");
  if (table == nullptr) {
    findings.push_back({"layers.txt", 0, "missing"});
    return;
  }
  const Layers layers = ParseLayers(table->text, findings);
  std::map<std::string, std::set<std::string>> included;
  for (const SourceFile& file : files) {
    if (!file.is_cpp() || file.room().empty()) continue;
    CheckIncludes(file, layers, findings);
    if (!file.is_test()) included[file.room()].merge(IncludedRooms(file));
  }
  for (const std::string& room : layers.order) {
    const SourceFile* cmake = FindFile(files, "src/" + room + "/CMakeLists.txt");
    if (cmake != nullptr) CheckDepends(*cmake, layers, included[room], findings);
  }
  CheckCudaHeaders(files, findings);
}

}  // namespace thalweg::tools::lint
