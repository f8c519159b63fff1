// A decode step allocates nothing once it has run a few times: not on the caller's thread, not on a
// member of the team, for one sequence and for eight, verify width 4 included.
#include "kernels/backends.h"
#include "tests/invariance/checkpoints.h"
#include "tests/invariance/count_allocations.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kPrompt = 40;
// Members of the team meet each op sooner or later: steps until all have their working memory.
constexpr int64_t kMostWarmUps = 150;
constexpr int64_t kQuietSteps = 25;
constexpr int64_t kMostWidth = 4;
constexpr int64_t kTokens = kPrompt + (kMostWarmUps + kQuietSteps) * kMostWidth;

struct Decode {
  std::string checkpoint;
  int threads = 1;
  int64_t sequences = 1;
  int64_t width = 1;  // rows of each sequence in a step
  kernels::Numerics numerics = kernels::Numerics::kExact;
};

// Sequences that are fed the same text step by step, with everything allocated outside the steps.
class Decoder {
 public:
  explicit Decoder(const Decode& d)
      : decode_(d),
        model_(LoadModel(Shipped(d.checkpoint), Options(d))),
        text_(SomeText(model_->config(), kTokens, 3)) {
    for (int64_t s = 0; s < d.sequences; ++s) {
      chunks_.push_back({.sequence = model_->pool().Open().value(),
                         .tokens = std::span(text_).first(static_cast<size_t>(kPrompt))});
      EXPECT_TRUE(model_->Step({&chunks_.back(), 1}, &output_).ok());
    }
  }

  // Allocations of one step.
  int64_t Step() {
    const auto at = static_cast<size_t>(model_->pool().length(chunks_.front().sequence));
    for (model::Chunk& chunk : chunks_) {
      chunk.tokens = std::span(text_).subspan(at, static_cast<size_t>(decode_.width));
      chunk.logits = model::LogitRows::kAll;
    }
    const int64_t before = Allocations();
    const Status status = model_->Step(chunks_, &output_);
    const int64_t allocations = Allocations() - before;
    EXPECT_TRUE(status.ok()) << status.ToString();
    return allocations;
  }

 private:
  static model::ModelOptions Options(const Decode& d) {
    return OptionsFor(kernels::CpuOps(d.numerics), d.threads, d.sequences, kTokens);
  }

  Decode decode_;
  std::unique_ptr<model::Model> model_;
  std::vector<int32_t> text_;
  std::vector<model::Chunk> chunks_;
  model::StepOutput output_;
};

// The longest run of steps without an allocation, up to kQuietSteps.
int64_t QuietSteps(Decoder* decoder) {
  int64_t quiet = 0;
  int64_t longest = 0;
  for (int64_t i = 0; i < kMostWarmUps + kQuietSteps && longest < kQuietSteps; ++i) {
    quiet = decoder->Step() == 0 ? quiet + 1 : 0;
    longest = std::max(longest, quiet);
  }
  return longest;
}

TEST(Allocation, ADecodeStepAllocatesNothing) {
  for (const char* name : {"tiny-a", "tiny-b", "nano"}) {
    for (const kernels::Numerics numerics : {kernels::Numerics::kExact, kernels::Numerics::kFast}) {
      for (const Decode& d : {Decode{name, 1, 1, 1, numerics}, Decode{name, 1, 8, 1, numerics},
                              Decode{name, 2, 1, 1, numerics}, Decode{name, 2, 8, 1, numerics},
                              Decode{name, 1, 2, kMostWidth, numerics}}) {
        Decoder decoder(d);
        EXPECT_EQ(QuietSteps(&decoder), kQuietSteps)
            << name << ", " << d.threads << " threads, " << d.sequences << " sequences of "
            << d.width << " rows";
      }
    }
  }
}

TEST(Allocation, IsCounted) {
  const int64_t before = Allocations();
  const std::vector<int> some(1000);
  EXPECT_GT(Allocations(), before);
  EXPECT_EQ(some.size(), 1000u);
}

}  // namespace
}  // namespace thalweg::tests
