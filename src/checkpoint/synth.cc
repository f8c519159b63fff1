#include "checkpoint/synth.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "checkpoint/engram_tables.h"
#include "checkpoint/expected.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synth_tokenizer.h"
#include "checkpoint/synth_values.h"

namespace thalweg::checkpoint {
namespace {

namespace fs = std::filesystem;
using base::Json;

constexpr int64_t kChunkBytes = 1 << 20;
constexpr uint64_t kSpareDiskBytes = 64 << 20;  // left free beside the tensors

// A folder that disappears unless it is kept: readers never see half a checkpoint.
class PartialFolder {
 public:
  explicit PartialFolder(const fs::path& target)
      : target_(target), path_(target.string() + fmt::format(".partial-{}", getpid())) {}
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }

  Status Create() {
    std::error_code error;
    if (fs::exists(target_, error) && !fs::is_empty(target_, error)) {
      return base::FailedPrecondition(
          fmt::format("{} exists and is not empty; name a new folder", target_.string()));
    }
    fs::create_directories(path_, error);
    if (!error) return {};
    return base::IoError(fmt::format("cannot create {}: {}", path_.string(), error.message()));
  }

  Status Keep() {
    std::error_code error;
    fs::rename(path_, target_, error);
    if (error) {
      return base::IoError(
          fmt::format("cannot rename to {}: {}", target_.string(), error.message()));
    }
    kept_ = true;
    return {};
  }

 private:
  fs::path target_;
  fs::path path_;
  bool kept_ = false;
};

// Consecutive tensors of the list, wider elements first inside.
using Shard = std::vector<const ExpectedTensor*>;

std::vector<Shard> PlanShards(const std::vector<ExpectedTensor>& tensors, uint64_t max_bytes) {
  std::vector<Shard> shards;
  uint64_t bytes = 0;
  for (const ExpectedTensor& tensor : tensors) {
    const auto size = static_cast<uint64_t>(tensor.bytes());
    if (shards.empty() || (bytes > 0 && (bytes > max_bytes || size > max_bytes - bytes))) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(&tensor);
    bytes += size;
  }
  for (Shard& shard : shards) {
    std::ranges::stable_sort(shard, [](const ExpectedTensor* a, const ExpectedTensor* b) {
      return tensor::SizeOf(a->dtype) > tensor::SizeOf(b->dtype);
    });
  }
  return shards;
}

std::string ShardName(size_t shard, size_t shards) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

class SynthesisRun {
 public:
  SynthesisRun(const Config& config, fs::path dir, const SynthesisOptions& options)
      : config_(config),
        dir_(std::move(dir)),
        options_(options),
        tensors_(ExpectedTensors(config)),
        shards_(PlanShards(tensors_, options.max_shard_bytes)) {
    for (const ExpectedTensor& tensor : tensors_) {
      summary_.bytes += static_cast<uint64_t>(tensor.bytes());
    }
    summary_.tensors = static_cast<int64_t>(tensors_.size());
    summary_.shards = static_cast<int>(shards_.size());
  }

  Result<SynthesisSummary> Write() {
    TW_TRY(CheckDisk());
    for (size_t i = 0; i < shards_.size(); ++i) TW_TRY(WriteShard(i));
    TW_TRY(WriteIndex());
    TW_TRY(WriteTokens());
    TW_TRY(WriteText("generation_config.json", GenerationConfig()));
    TW_TRY(WriteText("config.json", ToJson(config_)));
    return summary_;
  }

 private:
  Status CheckDisk() const {
    std::error_code error;
    const fs::space_info space = fs::space(dir_, error);
    if (error || space.available >= summary_.bytes + kSpareDiskBytes) return {};
    return base::ResourceExhausted(
        fmt::format("the checkpoint takes {} bytes, but {} has only {} free", summary_.bytes,
                    dir_.string(), space.available));
  }

  Status WriteText(const char* name, std::string_view content) const {
    return base::WriteFile(dir_ / name, content);
  }

  Status WriteShard(size_t shard) {
    std::vector<TensorSpec> specs;
    for (const ExpectedTensor* t : shards_[shard]) specs.push_back({t->name, t->dtype, t->shape});
    TW_ASSIGN(SafetensorsWriter writer,
              SafetensorsWriter::Begin(dir_ / ShardName(shard, shards_.size()), specs));
    for (const ExpectedTensor* t : shards_[shard]) TW_TRY(WriteTensor(*t, writer));
    return writer.Finish();
  }

  Status WriteTensor(const ExpectedTensor& tensor, SafetensorsWriter& writer) {
    SyntheticTensor source(tensor, options_.seed, tables_);
    const int64_t step = std::max<int64_t>(1, kChunkBytes / source.row_bytes());
    for (int64_t row = 0; row < source.rows(); row += step) {
      const int64_t count = std::min(step, source.rows() - row);
      chunk_.resize(static_cast<size_t>(count * source.row_bytes()));
      source.Fill(row, count, chunk_);
      TW_TRY(writer.Append(chunk_));
    }
    return {};
  }

  Status WriteIndex() const {
    Json map = Json::object();
    auto& members = map.get_ref<Json::object_t&>();
    for (size_t i = 0; i < shards_.size(); ++i) {
      // emplace_back of the underlying list: names are distinct, and a search would be quadratic.
      for (const ExpectedTensor* tensor : shards_[i]) {
        members.Json::object_t::Container::emplace_back(tensor->name, ShardName(i, shards_.size()));
      }
    }
    const Json root = {{"metadata", {{"total_size", summary_.bytes}}},
                       {"weight_map", std::move(map)}};
    return WriteText("model.safetensors.index.json", root.dump(2) + "\n");
  }

  // Tokenizer files, and a token map where no tokenizer gives the configured one.
  Status WriteTokens() const {
    std::optional<SyntheticVocabulary> vocabulary;
    if (options_.tokenizer) {
      TW_ASSIGN(vocabulary, MakeVocabulary(config_));
      if (!vocabulary) {
        spdlog::info("vocab_size {} has no room for a byte-level tokenizer; none is written",
                     config_.vocab_size);
      }
    }
    if (vocabulary) {
      TW_TRY(WriteText("tokenizer.json", TokenizerJson(*vocabulary)));
      TW_TRY(WriteText("tokenizer_config.json", TokenizerConfigJson(config_)));
    }
    const bool folds = vocabulary && vocabulary->folds_as_configured;
    if (folds || !config_.HasEngram()) return {};
    return WriteText("engram_token_map.bin", MadeUpTokenMap(config_));
  }

  std::string GenerationConfig() const {
    const Json root = {{"bos_token_id", config_.bos_token_id},
                       {"eos_token_id", config_.eos_token_id},
                       {"pad_token_id", config_.pad_token_id},
                       {"do_sample", true},
                       {"temperature", 1.0},
                       {"top_p", 1.0}};
    return root.dump(2) + "\n";
  }

  const Config& config_;
  fs::path dir_;
  SynthesisOptions options_;
  std::vector<ExpectedTensor> tensors_;
  std::vector<Shard> shards_;  // point into tensors_
  SynthesisSummary summary_;
  CodeTables tables_;
  std::vector<std::byte> chunk_;
};

}  // namespace

Result<SynthesisSummary> WriteSynthetic(const Config& config, const fs::path& dir,
                                        const SynthesisOptions& options) {
  TW_TRY(Validate(config));
  TW_TRY(BuildEngramTables(config).status());
  // "out/" names the folder "out"; its partial twin must stand beside it, not inside.
  PartialFolder folder(dir.has_filename() ? dir : dir.parent_path());
  TW_TRY(folder.Create());
  TW_ASSIGN(const SynthesisSummary summary, SynthesisRun(config, folder.path(), options).Write());
  TW_TRY(folder.Keep());
  return summary;
}

}  // namespace thalweg::checkpoint
