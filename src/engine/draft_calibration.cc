#include "engine/draft_calibration.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <system_error>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "engine/drafts.h"
#include "spec/limits.h"

namespace thalweg::engine {

Result<std::string> DraftIdentity(const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::Config& c = checkpoint.config();
  const auto head = checkpoint.Find(
      fmt::format("mtp.{}.confidence_head.proj.weight", c.num_nextn_predict_layers - 1));
  if (!head.has_value()) return base::Unsupported("this checkpoint has no draft module");
  const std::string text =
      checkpoint::ToJson(c) +
      std::string(reinterpret_cast<const char*>(head->data), static_cast<size_t>(head->bytes()));
  return base::HexOf(base::Sha256Of(text));
}

std::filesystem::path CalibrationFile(const std::filesystem::path& folder,
                                      std::string_view identity) {
  constexpr size_t kDigits = 16;
  return folder / fmt::format("calibration-{}.json", identity.substr(0, kDigits));
}

Status WriteCalibration(const std::filesystem::path& path, const spec::Calibration& calibration) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error)
    return base::IoError(
        fmt::format("cannot make {}: {}", path.parent_path().string(), error.message()));
  return base::WriteFile(path, spec::ToJson(calibration));
}

Result<spec::Calibration> ReadCalibration(const std::filesystem::path& path,
                                          const checkpoint::Checkpoint& checkpoint) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, spec::kMaxTableBytes));
  TW_ASSIGN(spec::Calibration read, spec::ParseCalibration(text, path.string()));
  TW_ASSIGN(const std::string identity, DraftIdentity(checkpoint));
  const auto slots = static_cast<size_t>(checkpoint.config().dspark_block_size);
  const Status status = spec::CheckCalibrationOf(read, identity, slots);
  if (!status.ok()) return status.WithContext(path.string());
  return read;
}

Result<std::vector<double>> FindTemperatures(const std::string& file,
                                             const checkpoint::Checkpoint& checkpoint) {
  if (!file.empty()) {
    TW_ASSIGN(const spec::Calibration named, ReadCalibration(file, checkpoint));
    return named.temperatures;
  }
  const std::filesystem::path folder = CostFolder();
  TW_ASSIGN(const std::string identity, DraftIdentity(checkpoint));
  const std::filesystem::path kept = CalibrationFile(folder, identity);
  std::error_code error;
  if (folder.empty() || !std::filesystem::exists(kept, error)) return std::vector<double>();
  const auto read = ReadCalibration(kept, checkpoint);
  if (read.ok()) return read->temperatures;
  spdlog::warn("confidences in drafts are taken as they are: {}", read.status().message());
  return std::vector<double>();
}

}  // namespace thalweg::engine
