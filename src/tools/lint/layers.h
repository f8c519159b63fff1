// Which room may include which: the table of layers.txt, held against the includes and the build.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lint/source.h"

namespace thalweg::tools::lint {

// Rooms from low to high and, for each, the rooms it may include. Rooms marked '*' may include all.
struct Layers {
  std::vector<std::string> order;
  std::map<std::string, std::set<std::string>> allowed;
  std::set<std::string> everything;

  bool Knows(const std::string& room) const { return allowed.contains(room); }
  bool Allows(const std::string& from, const std::string& to) const;
};

// Reads layers.txt. A room that names a later room, itself, an unknown one or a '*' room is a
// finding; so the table can hold no cycle.
Layers ParseLayers(std::string_view text, Findings& findings);

// The rooms that a file includes, from its #include "room/..." lines.
std::set<std::string> IncludedRooms(const SourceFile& file);

// Findings for include edges that are not in the table. Tests may include every room but `tools`.
void CheckIncludes(const SourceFile& file, const Layers& layers, Findings& findings);

// Findings where DEPENDS of src/<room>/CMakeLists.txt differs from layers.txt or leaves out a room
// that the sources of the room include.
void CheckDepends(const SourceFile& cmake, const Layers& layers,
                  const std::set<std::string>& included, Findings& findings);

// Findings for CUDA and NCCL headers outside kernels/cuda, comm, kvpool/*.cu, the graph cache of
// exec and one file of tensor.
void CheckCudaHeaders(const std::vector<SourceFile>& files, Findings& findings);

// All of the above over a tree.
void CheckLayers(const std::vector<SourceFile>& files, Findings& findings);

}  // namespace thalweg::tools::lint
