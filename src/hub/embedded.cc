// The search for the checkpoint that comes with the program.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "hub/hub.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kLevelsAbove = 6;  // lib/python3.11/site-packages/thalweg and the build folders

// Any object of this library: its address tells which file the code was loaded from.
const char kHere = 0;

// Folders from which the search goes up: the program's, and that of the shared object that holds
// this code (a Python module runs inside the interpreter's program).
std::vector<fs::path> Starts() {
  std::vector<fs::path> starts;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) starts.push_back(program.parent_path());
  Dl_info info = {};
  if (dladdr(&kHere, &info) == 0 || info.dli_fname == nullptr) return starts;
  const fs::path object = fs::canonical(info.dli_fname, error);
  if (!error && (starts.empty() || object.parent_path() != starts.front()))
    starts.push_back(object.parent_path());
  return starts;
}

std::vector<fs::path> Places() {
  std::vector<fs::path> places;
  for (fs::path folder : Starts()) {
    for (int i = 0; i < kLevelsAbove; ++i) {
      places.push_back(folder / "models/nano");
      places.push_back(folder / "share/thalweg/models/nano");
      folder = folder.parent_path();
    }
  }
  return places;
}

}  // namespace

Result<fs::path> EmbeddedModel(const HubOptions& options) {
  std::error_code error;
  if (!options.nano_dir.empty()) {
    if (fs::exists(options.nano_dir / "config.json", error)) return options.nano_dir;
    return base::NotFound(fmt::format("{} (THALWEG_NANO_DIR) holds no checkpoint: no config.json",
                                      options.nano_dir.string()));
  }
  for (const fs::path& place : Places()) {
    if (fs::exists(place / "config.json", error)) return place;
  }
  return base::NotFound(
      "the checkpoint models/nano is not near the program: name a checkpoint folder with --model, "
      "or say where it is with THALWEG_NANO_DIR");
}

}  // namespace thalweg::hub
