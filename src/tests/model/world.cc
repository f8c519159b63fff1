#include "tests/model/world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "checkpoint/synth.h"

namespace thalweg::tests {
namespace {

namespace fs = std::filesystem;

const base::ThreadTeam& Team(int threads) {
  static const base::ThreadTeam teams[] = {base::ThreadTeam(1), base::ThreadTeam(2),
                                           base::ThreadTeam(3)};
  return teams[threads - 1];
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  static int count = 0;
  path_ = fs::temp_directory_path() / fmt::format("thalweg-properties-{}-{}", getpid(), count++);
  fs::create_directories(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

World::World(uint64_t seed) : seed_(seed) {
  const checkpoint::Config config = RandomConfig(seed);
  const fs::path dir = folder_.path() / "checkpoint";
  checkpoint::WriteSynthetic(config, dir, {.seed = seed, .tokenizer = false}).value();
  checkpoint_.emplace(checkpoint::Checkpoint::Open(dir).value());
  prompt_ = RandomPrompt(config, seed, TheSweep().longest_prompt);
}

std::string World::Describe() const {
  return fmt::format("seed {} prompt {}: {}", seed_, prompt_.size(), tests::Describe(config()));
}

model::ModelOptions World::Options(int threads, int64_t sequences) const {
  model::ModelOptions options;
  options.ops = &kernels::ReferenceOps();
  options.team = &Team(threads);
  options.max_rows = 300;
  options.max_sequences = sequences;
  options.max_tokens = 320 * sequences;
  return options;
}

std::unique_ptr<model::Model> World::Load(int threads, int64_t sequences) const {
  return Load(Options(threads, sequences));
}

std::unique_ptr<model::Model> World::Load(const model::ModelOptions& options) const {
  return model::Model::Load(*checkpoint_, options).value();
}

void ForEachWorld(int shard, void (*property)(const World& world), uint64_t every) {
  const Sweep sweep = TheSweep();
  for (uint64_t i = static_cast<uint64_t>(shard); i < sweep.seeds; i += kShards * every) {
    const World world(sweep.first_seed + i);
    SCOPED_TRACE(world.Describe());
    property(world);
    if (::testing::Test::HasFailure()) return;
  }
}

Runner::Runner(model::Model* model, const Text& text)
    : model_(model), text_(&text), id_(model->pool().Open().value()) {}

Runner::~Runner() { model_->pool().Close(id_); }

model::Chunk Runner::NextChunk(int64_t count) const {
  const auto at = static_cast<size_t>(length());
  const auto n = static_cast<size_t>(count);
  return {.sequence = id_,
          .tokens = std::span(text_->ids).subspan(at, n),
          .image = std::span(text_->image).subspan(at, n),
          .logits = model::LogitRows::kAll};
}

std::vector<float> Runner::Feed(int64_t count, int64_t decoder_from) {
  model::Chunk chunk = NextChunk(count);
  chunk.decoder_from = decoder_from;
  if (decoder_from > length()) chunk.logits = model::LogitRows::kLast;
  if (decoder_from > length() + count - 1) chunk.logits = model::LogitRows::kNone;
  model::StepOutput out;
  const Status status = model_->Step({&chunk, 1}, &out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out.logits;
}

std::vector<float> Runner::FeedFrom(const Text& other, int64_t count, int64_t decoder_from) {
  const Text* own = std::exchange(text_, &other);
  std::vector<float> logits = Feed(count, decoder_from);
  text_ = own;
  return logits;
}

std::vector<float> Runner::FeedInPieces(int64_t end, int64_t largest, Draws* draws,
                                        int64_t decoder_from) {
  std::vector<float> last;
  while (length() < end) {
    last = Feed(std::min(draws->Between(1, largest), end - length()), decoder_from);
  }
  return last;
}

void Runner::Truncate(int64_t length) {
  const Status status = model_->pool().Truncate(id_, length);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

Snapshot Runner::Take(int64_t rollback_left) const {
  return TakeSnapshot(&model_->pool(), id_, rollback_left);
}

}  // namespace thalweg::tests
