#include "tests/invariance/variants.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/invariance/checkpoints.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kText = 40;
constexpr int64_t kBatch64Steps = 6;

// The text under test and its neighbours in one model.
class Reader {
 public:
  Reader(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops, const Variant& v)
      : variant_(v), text_(SomeText(checkpoint.config(), kText, 1)) {
    model::ModelOptions options = OptionsFor(ops, v.threads, v.neighbours + 1, kText + 8);
    // Room for a draft block of every sequence.
    options.max_rows = std::max(kText, 8 * (v.neighbours + 1));
    options.repack = v.packed ? model::Repack::kAlways : model::Repack::kNever;
    model_ = LoadModel(checkpoint, options);
    // Half of the neighbours come before the text in every step, half behind it.
    for (int64_t n = 0; n <= v.neighbours; ++n) sequences_.push_back(model_->pool().Open().value());
    for (int64_t n = 0; n < v.neighbours; ++n)
      noise_.push_back(SomeText(checkpoint.config(), kText, 100 + static_cast<uint32_t>(n)));
  }

  Readings Run() {
    Readings out;
    int64_t steps = 0;
    for (int64_t at = 0; at < kText; ++steps) {
      const int64_t wanted = at == 0 && variant_.first > 0 ? variant_.first : variant_.width;
      const int64_t rows = std::min(wanted, kText - at);
      Step(at, rows, steps, &out.logits);
      at += rows;
    }
    model::DraftOutput draft;
    const model::DraftRequest request{Own(), text_.front()};
    EXPECT_TRUE(model_->Draft({&request, 1}, &draft).ok());
    out.draft = draft.logits;
    return out;
  }

 private:
  size_t OwnPlace() const { return static_cast<size_t>(variant_.neighbours / 2); }
  kvpool::SequenceId Own() const { return sequences_[OwnPlace()]; }

  void Step(int64_t at, int64_t rows, int64_t step, std::vector<float>* logits) {
    std::vector<model::Chunk> chunks;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const bool own = s == OwnPlace();
      const auto& text = own ? text_ : noise_[s < OwnPlace() ? s : s - 1];
      const auto tokens = std::span(text).subspan(static_cast<size_t>(own ? at : step),
                                                  static_cast<size_t>(own ? rows : 1));
      chunks.push_back({.sequence = sequences_[s],
                        .tokens = tokens,
                        .logits = own ? model::LogitRows::kAll : model::LogitRows::kNone});
    }
    model::StepOutput out;
    const Status status = model_->Step(chunks, &out);
    EXPECT_TRUE(status.ok()) << status.ToString();
    logits->insert(logits->end(), out.logits.begin(), out.logits.end());
  }

  Variant variant_;
  std::vector<int32_t> text_;
  std::unique_ptr<model::Model> model_;
  std::vector<kvpool::SequenceId> sequences_;
  std::vector<std::vector<int32_t>> noise_;
};

int64_t DifferentRows(const std::vector<float>& a, const std::vector<float>& b, size_t width) {
  EXPECT_EQ(a.size(), b.size());
  if (a.size() != b.size()) return static_cast<int64_t>(std::max(a.size(), b.size()) / width);
  int64_t different = 0;
  for (size_t at = 0; at < a.size(); at += width)
    different += std::memcmp(&a[at], &b[at], width * sizeof(float)) == 0 ? 0 : 1;
  return different;
}

}  // namespace

std::vector<Variant> AllVariants() {
  std::vector<Variant> all = {
      {.first = 30, .width = 1},
      {.first = 20, .width = 1, .neighbours = 6, .threads = 2, .packed = true},
      {.first = kText - kBatch64Steps, .width = 1, .neighbours = 63, .threads = 3},
      {.first = kText, .neighbours = 20, .threads = 4, .packed = true},
      {.first = 1, .width = 17, .threads = 2},
      {.first = 33, .width = 7, .neighbours = 1, .packed = true},
      {.first = kText, .packed = true},
  };
  for (int64_t width = 1; width <= 8; ++width) {
    all.push_back({.first = 17 + width,
                   .width = width,
                   .neighbours = width % 3,
                   .threads = 1 + static_cast<int>(width % 4),
                   .packed = width % 2 == 0});
  }
  return all;
}

std::string Describe(const Variant& v) {
  return fmt::format("{} rows first, then {} a step, {} neighbours, {} threads, weights {}",
                     v.first, v.width, v.neighbours, v.threads, v.packed ? "packed" : "as stored");
}

Readings ReadAtOnce(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops) {
  return Read(checkpoint, ops, {.first = kText});
}

Readings Read(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops,
              const Variant& variant) {
  return Reader(checkpoint, ops, variant).Run();
}

int64_t DifferentRows(const Readings& a, const Readings& b, int64_t vocab) {
  const auto width = static_cast<size_t>(vocab);
  return DifferentRows(a.logits, b.logits, width) + DifferentRows(a.draft, b.draft, width);
}

}  // namespace thalweg::tests
