#include "tools/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "engine/options.h"

namespace thalweg::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSamples = 64;  // of a shard
constexpr size_t kSampleBytes = 4096;
constexpr size_t kMaxFiles = 4096;

// Options of the engine that no result depends on; every other one is part of a run's identity.
constexpr std::array<std::string_view, 30> kWithoutEffect = {"model-dir",
                                                             "offline",
                                                             "threads",
                                                             "pin",
                                                             "repack",
                                                             "graphs",
                                                             "rank-steps",
                                                             "max-rows",
                                                             "max-sequences",
                                                             "cache-tokens",
                                                             "accelerator",
                                                             "prefix-reuse",
                                                             "overlap",
                                                             "preempt-every",
                                                             "cache-checkpoints",
                                                             "checkpoint-interval",
                                                             "trace",
                                                             "watchdog",
                                                             "log-level",
                                                             "admission-growth",
                                                             "engine-seed",
                                                             "so-cache-bytes",
                                                             "so-threads",
                                                             "ranks",
                                                             "expert-placement",
                                                             "context-ranks",
                                                             "expert-spare",
                                                             "rebalance-window",
                                                             "rebalance-bytes",
                                                             "expert-counts"};

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void AddSamples(std::string_view content, base::Sha256* hash) {
  const size_t step = std::max(content.size() / kSamples, kSampleBytes);
  for (size_t at = 0; at < content.size(); at += step)
    hash->Update(content.substr(at, kSampleBytes));
}

Result<std::vector<fs::path>> FilesOf(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const bool hidden = at->path().filename().string().starts_with('.');
    if (!hidden && at->is_regular_file(error)) files.push_back(at->path());
    if (files.size() > kMaxFiles)
      return base::OutOfRange(
          fmt::format("{}: more than {} files are no model", folder.string(), kMaxFiles));
  }
  if (error)
    return base::IoError(fmt::format("cannot read {}: {}", folder.string(), error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string EngineIdentity(const base::OptionValues& values) {
  std::string text;
  for (const base::OptionRow& row : engine::EngineOptions::Rows()) {
    if (std::find(kWithoutEffect.begin(), kWithoutEffect.end(), row.name) == kWithoutEffect.end())
      text += fmt::format(" {}={}", row.name, values.Text(row.name));
  }
  return text;
}

Result<std::string> ModelIdentity(const fs::path& folder) {
  TW_ASSIGN(const std::vector<fs::path> files, FilesOf(folder));
  base::Sha256 hash;
  for (const fs::path& path : files) {
    const std::string extension = path.extension().string();
    if (extension != ".json" && extension != ".safetensors") continue;
    TW_ASSIGN(const base::MappedFile file, base::MappedFile::Open(path));
    const std::string_view content = TextOf(file.bytes());
    hash.Update(fmt::format("{} {}\n", path.filename().string(), content.size()));
    if (extension == ".json") hash.Update(content);
    if (extension != ".json") AddSamples(content, &hash);
  }
  return base::HexOf(hash.Finish());
}

}  // namespace thalweg::tools
