// Placements as files.
#include "base/mapped_file.h"
#include "parallel/json_table.h"
#include "parallel/limits.h"
#include "parallel/placement.h"

namespace thalweg::parallel {
namespace {
constexpr std::string_view kFormat = "thalweg expert placement";
}  // namespace

std::string ToJson(const Placement& placement) {
  std::vector<std::vector<int64_t>> layers;
  for (const auto& layer : placement.layers) layers.emplace_back(layer.begin(), layer.end());
  return TableToJson(kFormat,
                     {{"experts", placement.shape.experts},
                      {"ranks", placement.shape.ranks},
                      {"slots_per_rank", placement.shape.slots_per_rank}},
                     layers);
}

Result<Placement> ParsePlacement(std::string_view text, std::string_view what) {
  Placement placement;
  PlacementShape& shape = placement.shape;
  TW_ASSIGN(const auto layers,
            ParseTable(text, what, kFormat,
                       {{"experts", 1, kMostExperts, &shape.experts},
                        {"ranks", 1, kMostRanks, &shape.ranks},
                        {"slots_per_rank", 1, kMostSlots, &shape.slots_per_rank}},
                       kMostSlots, kMostExperts - 1));
  for (const auto& layer : layers) {
    std::vector<int32_t>& narrow = placement.layers.emplace_back();
    for (const int64_t expert : layer) narrow.push_back(static_cast<int32_t>(expert));
  }
  const Status status = CheckPlacement(placement);
  if (!status.ok()) return status.WithContext(what);
  return placement;
}

Result<Placement> ReadPlacement(const std::filesystem::path& path) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMostFileBytes));
  return ParsePlacement(text, path.string());
}

}  // namespace thalweg::parallel
