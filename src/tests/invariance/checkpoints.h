// The checkpoints that come with the sources, models over them, and texts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/thread_team.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"

namespace thalweg::tests {

// "tiny-a", "tiny-b" or "nano"; opened once for the whole program.
inline const checkpoint::Checkpoint& Shipped(const std::string& name) {
  static std::vector<std::pair<std::string, std::unique_ptr<checkpoint::Checkpoint>>> opened;
  for (const auto& [known, checkpoint] : opened) {
    if (known == name) return *checkpoint;
  }
  const std::filesystem::path root = THALWEG_SOURCE_DIR;
  const auto folder = name == "nano" ? root / "models/nano" : root / "tests/data" / name / "model";
  Result<checkpoint::Checkpoint> made = checkpoint::Checkpoint::Open(folder, {.vision = false});
  if (!made.ok()) base::CheckFailed(__FILE__, __LINE__, "Open", made.status().ToString());
  opened.emplace_back(name, std::make_unique<checkpoint::Checkpoint>(std::move(*made)));
  return *opened.back().second;
}

inline const base::ThreadTeam& TeamOf(int threads) {
  static const base::ThreadTeam teams[] = {base::ThreadTeam(1), base::ThreadTeam(2),
                                           base::ThreadTeam(3), base::ThreadTeam(4)};
  return teams[threads - 1];
}

inline model::ModelOptions OptionsFor(const kernels::Ops& ops, int threads, int64_t sequences,
                                      int64_t tokens) {
  model::ModelOptions options;
  options.ops = &ops;
  options.team = &TeamOf(threads);
  options.max_rows = 128;
  options.max_sequences = sequences;
  options.max_tokens = tokens * sequences;
  return options;
}

inline std::unique_ptr<model::Model> LoadModel(const checkpoint::Checkpoint& checkpoint,
                                               const model::ModelOptions& options) {
  Result<std::unique_ptr<model::Model>> model = model::Model::Load(checkpoint, options);
  if (!model.ok()) base::CheckFailed(__FILE__, __LINE__, "Load", model.status().ToString());
  return std::move(*model);
}

// Tokens below the reserved ones at the end of a vocabulary; `seed` chooses.
inline std::vector<int32_t> SomeText(const checkpoint::Config& config, int64_t length,
                                     uint32_t seed) {
  std::vector<int32_t> ids;
  for (uint32_t i = 0; ids.size() < static_cast<size_t>(length); ++i) {
    for (const uint32_t draw : base::Philox4x32({i, 0, 0, 0}, {seed, 77}))
      ids.push_back(static_cast<int32_t>(draw % static_cast<uint32_t>(config.vocab_size / 2)));
  }
  ids.resize(static_cast<size_t>(length));
  return ids;
}

}  // namespace thalweg::tests
