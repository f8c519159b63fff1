// One random config made real: a synthetic checkpoint on disk, models over it, and sequences that
// are fed from a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/replay.h"
#include "tests/model/random_config.h"
#include "tests/model/snapshot.h"

namespace thalweg::tests {

// Which seeds an executable runs, and how long its prompts get.
struct Sweep {
  uint64_t first_seed = 0;
  uint64_t seeds = 0;
  int64_t longest_prompt = 0;
};
Sweep TheSweep();  // defined once per executable

inline constexpr int kShards = 4;

// A folder that is removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class World {
 public:
  explicit World(uint64_t seed);

  uint64_t seed() const { return seed_; }
  const checkpoint::Config& config() const { return checkpoint_->config(); }
  const checkpoint::Checkpoint& checkpoint() const { return *checkpoint_; }
  const Text& prompt() const { return prompt_; }
  int64_t rollback() const { return model::RollbackTokens(config()); }
  std::string Describe() const;
  // For tests of threads: mostly 1. Seldom 2, because a team as large as the machine spins while it
  // waits, which takes long where other tests run beside.
  int threads() const { return seed_ % 12 == 0 ? 3 : seed_ % 48 == 6 ? 2 : 1; }

  // The reference backend with room for `sequences` sequences.
  std::unique_ptr<model::Model> Load(int threads = 1, int64_t sequences = 2) const;
  std::unique_ptr<model::Model> Load(const model::ModelOptions& options) const;
  model::ModelOptions Options(int threads, int64_t sequences) const;

 private:
  uint64_t seed_;
  TemporaryFolder folder_;
  std::optional<checkpoint::Checkpoint> checkpoint_;
  Text prompt_;
};

// Runs a property on the seeds of one shard, or on every n-th of them, with the config in the trace
// of every failure.
void ForEachWorld(int shard, void (*property)(const World& world), uint64_t every = 1);

// One open sequence that is fed from a text, position by position.
class Runner {
 public:
  Runner(model::Model* model, const Text& text);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner();

  kvpool::SequenceId id() const { return id_; }
  int64_t length() const { return model_->pool().length(id_); }
  // The next `count` tokens as a chunk that asks for all logits.
  model::Chunk NextChunk(int64_t count) const;
  // Feeds the next `count` tokens; logits of every row, or of the last when the decoder starts
  // behind the first row, or of none when it starts behind the last.
  std::vector<float> Feed(int64_t count, int64_t decoder_from = 0);
  // The same for tokens of another text at the current position.
  std::vector<float> FeedFrom(const Text& other, int64_t count, int64_t decoder_from = 0);
  // Feeds up to position `end` in pieces of 1 to `largest`; the logits of the last piece.
  std::vector<float> FeedInPieces(int64_t end, int64_t largest, Draws* draws,
                                  int64_t decoder_from = 0);
  void Truncate(int64_t length);
  Snapshot Take(int64_t rollback_left) const;

 private:
  model::Model* model_;
  const Text* text_;
  kvpool::SequenceId id_;
};

}  // namespace thalweg::tests
