// Four layers of released sizes on the device against the processor's exact backend: each layer is
// given the processor's streams, and what it makes of them agrees; experts are the same wherever
// the margin of the choice, in what it is made by (score and bias), is wider than rounding.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/thread_team.h"
#include "checkpoint/synth.h"
#include "kernels/backends.h"
#include "model/model.h"
#include "tests/device/device.h"

namespace thalweg::tests {
namespace {

namespace fs = std::filesystem;
using checkpoint::Config;
using model::point::kFfnIn;
using model::point::kPreMixOut;
using model::point::kRouterExperts;
using model::point::kStreamsOut;

constexpr int64_t kLayers = 4;
constexpr int64_t kExperts = 16;
constexpr int64_t kVocab = 4096;
constexpr int64_t kPrompt = 300;            // beyond the window, with whole and half groups
constexpr double kLeastCosine = 0.9999;     // of a layer
constexpr double kLeastRowCosine = 0.9995;  // of a row of it
// Between the last expert chosen and the next one: less may fall either way. The router's input has
// been through attention, whose roundings move a score by up to a hundredth.
constexpr double kMargin = 0.01;
constexpr double kLeastDecided = 0.5;  // of the rows: with a wider margin

// One layer of each kind: window alone, owner of ratio 2, owner of ratio 1, one that reuses it.
Config FewLayers() {
  Config c = Config::Load(THALWEG_SOURCE_DIR "/tests/data/released_config.json").value();
  const Config none;
  c.num_hidden_layers = kLayers;
  c.n_routed_experts = kExperts;
  c.vocab_size = kVocab;
  c.image_token_id = kVocab - 1;
  c.compress_ratios = {0, 2, 1, 1};
  c.kv_source_layer_ids = {1, 2};
  c.index_source_layer_ids = {1, 2};
  c.candidate_source_layer_id = 2;
  c.engram_layer_ids.clear();
  c.engram_num_embeddings.clear();
  c.engram_max_ngram_size = none.engram_max_ngram_size;
  c.num_nextn_predict_layers = 0;
  c.dspark_block_size = 0;
  c.dspark_target_layer_ids.clear();
  c.vision = none.vision;
  return c;
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("thalweg-layers-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path checkpoint() const { return path_ / "checkpoint"; }

 private:
  fs::path path_;
};

using Key = std::pair<int, std::string>;
using Bytes = std::vector<std::byte>;

bool Wanted(std::string_view point) {
  return point == kStreamsOut || point == kPreMixOut || point == kRouterExperts || point == kFfnIn;
}

// Keeps what the processor made.
class Recorder : public model::Probe {
 public:
  bool Wants(int, std::string_view point) const override { return Wanted(point); }
  void See(int layer, std::string_view point, const tensor::MutableView& view) override {
    seen_[{layer, std::string(point)}].assign(view.data,
                                              view.data + static_cast<size_t>(view.bytes()));
  }
  const Bytes& At(int layer, std::string_view point) const {
    return seen_.at({layer, std::string(point)});
  }

 private:
  std::map<Key, Bytes> seen_;
};

// What the cosine of two vectors is made of.
struct Angle {
  double ab = 0, aa = 0, bb = 0;
  void Add(const Angle& other) {
    ab += other.ab;
    aa += other.aa;
    bb += other.bb;
  }
  double Cosine() const { return ab / std::sqrt(aa * bb); }
};

Angle AngleOf(const tensor::BF16* a, const tensor::BF16* b, int64_t count) {
  Angle sums;
  for (int64_t i = 0; i < count; ++i) {
    const double x = tensor::ToFloat(a[i]), y = tensor::ToFloat(b[i]);
    sums.Add({x * y, x * x, y * y});
  }
  return sums;
}

// By how much the last expert chosen for each row is ahead of the next one, from the processor's
// input of the router.
class Margins {
 public:
  Margins(const checkpoint::Checkpoint& checkpoint, const Recorder& recorder, int layer) {
    const Config& c = checkpoint.config();
    const std::string gate = "layers." + std::to_string(layer) + ".ffn.gate.";
    const auto* weight = As<tensor::BF16>(checkpoint.Get(gate + "weight").data);
    const auto* bias = As<float>(checkpoint.Get(gate + "bias").data);
    const Bytes& inputs = recorder.At(layer, kFfnIn);
    const auto* x = As<tensor::BF16>(inputs.data());
    const auto rows = static_cast<int64_t>(inputs.size()) / 2 / c.hidden_size;
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> keys;
      for (int64_t e = 0; e < c.n_routed_experts; ++e) {
        const double z = Dot(x + r * c.hidden_size, weight + e * c.hidden_size, c.hidden_size);
        keys.push_back(std::sqrt(std::log1p(std::exp(z))) + static_cast<double>(bias[e]));
      }
      std::sort(keys.begin(), keys.end(), std::greater<>());
      const auto last = static_cast<size_t>(c.TopExperts(false));
      margins_.push_back(keys[last - 1] - keys[last]);
    }
  }
  bool Decided(int64_t row) const { return margins_[static_cast<size_t>(row)] > kMargin; }

 private:
  template <typename T>
  static const T* As(const std::byte* data) {
    return reinterpret_cast<const T*>(data);
  }
  static double Dot(const tensor::BF16* a, const tensor::BF16* b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum +=
          static_cast<double>(tensor::ToFloat(a[i])) * static_cast<double>(tensor::ToFloat(b[i]));
    return sum;
  }
  std::vector<double> margins_;
};

// Compares what the device made, and gives the next layer what the processor made.
class Comparer : public model::Probe {
 public:
  Comparer(const Recorder& wanted, const checkpoint::Checkpoint& checkpoint)
      : wanted_(wanted), checkpoint_(checkpoint), c_(checkpoint.config()) {}
  bool Wants(int, std::string_view point) const override {
    return point != kFfnIn && Wanted(point);
  }
  void See(int layer, std::string_view point, const tensor::MutableView& view) override {
    const Bytes& wanted = wanted_.At(layer, point);
    ASSERT_EQ(wanted.size(), static_cast<size_t>(view.bytes()));
    if (point == kStreamsOut) CompareStreams(layer, wanted, view);
    if (point == kRouterExperts) CompareExperts(layer, wanted, view);
    if (point == kStreamsOut || point == kPreMixOut)
      std::copy(wanted.begin(), wanted.end(), view.data);
  }
  int64_t layers() const { return layers_; }

 private:
  // The layer as a whole, and each row: codes of eight bits that fall either way move a row by a
  // percent or two.
  void CompareStreams(int layer, const Bytes& wanted, const tensor::MutableView& view) {
    const int64_t width = c_.hc_mult * c_.hidden_size;
    const auto* a = reinterpret_cast<const tensor::BF16*>(wanted.data());
    const auto* b = reinterpret_cast<const tensor::BF16*>(view.data);
    Angle whole;
    double least = 1;
    for (int64_t r = 0; r < view.shape[0]; ++r) {
      if (!same_experts_[static_cast<size_t>(r)]) continue;
      const Angle row = AngleOf(a + r * width, b + r * width, width);
      least = std::min(least, row.Cosine());
      whole.Add(row);
    }
    EXPECT_GT(whole.Cosine(), kLeastCosine) << "layer " << layer;
    EXPECT_GT(least, kLeastRowCosine) << "layer " << layer;
    ++layers_;
  }

  void CompareExperts(int layer, const Bytes& wanted, const tensor::MutableView& view) {
    const Margins margins(checkpoint_, wanted_, layer);
    const int64_t topk = view.shape[1];
    const auto* a = reinterpret_cast<const int32_t*>(wanted.data());
    const auto* b = reinterpret_cast<const int32_t*>(view.data);
    same_experts_.assign(static_cast<size_t>(view.shape[0]), true);
    int64_t decided = 0;
    for (int64_t r = 0; r < view.shape[0]; ++r, a += topk, b += topk) {
      const bool same = std::equal(a, a + topk, b);
      same_experts_[static_cast<size_t>(r)] = same;
      if (!margins.Decided(r)) continue;
      ++decided;
      EXPECT_TRUE(same) << "layer " << layer << " row " << r;
    }
    EXPECT_GE(static_cast<double>(decided), kLeastDecided * static_cast<double>(view.shape[0]))
        << "layer " << layer;
  }

  const Recorder& wanted_;
  const checkpoint::Checkpoint& checkpoint_;
  const Config& c_;
  std::vector<bool> same_experts_;
  int64_t layers_ = 0;
};

class DeviceLayers : public OnDevice {};

TEST_F(DeviceLayers, AgreeWithTheProcessor) {
  const Config config = FewLayers();
  const Folder folder;
  const auto written =
      checkpoint::WriteSynthetic(config, folder.checkpoint(), {.seed = 4, .tokenizer = false});
  ASSERT_TRUE(written.ok()) << written.status().ToString();
  const auto checkpoint = checkpoint::Checkpoint::Open(folder.checkpoint());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  const base::ThreadTeam team(static_cast<int>(std::min(16u, std::thread::hardware_concurrency())));
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < kPrompt; ++i)
    tokens.push_back(static_cast<int32_t>(base::Philox4x32({i, 0, 0, 0}, {4, 4})[0] % kVocab));

  const auto run = [&](const kernels::Ops& ops, model::Probe* probe) {
    model::ModelOptions options;
    options.ops = &ops;
    options.team = &team;
    options.max_rows = kPrompt;
    options.max_tokens = 512;
    auto model = model::Model::Load(*checkpoint, options);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const kvpool::SequenceId id = (*model)->pool().Open().value();
    const model::Chunk chunk{.sequence = id, .tokens = tokens};
    model::StepOutput out;
    const Status status = (*model)->Step({&chunk, 1}, &out, probe);
    EXPECT_TRUE(status.ok()) << status.ToString();
  };
  Recorder recorder;
  run(kernels::CpuOps(kernels::Numerics::kExact), &recorder);
  Comparer comparer(recorder, *checkpoint);
  run(ops(), &comparer);
  EXPECT_EQ(comparer.layers(), kLayers);
}

}  // namespace
}  // namespace thalweg::tests
