// The projections, hyper-connections and experts as rows through an op (see row_ops_test.cc).
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

constexpr Tolerance kRoundedOnce = {2e-3, 4e-2};  // a bf16 step on a few values
constexpr Tolerance kQuantised = {1.5e-2, 0.5};   // a quantiser step on a few values
constexpr Tolerance kFp32 = {1e-6, 1e-5};

std::string FormatName(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBF16: return "bf16";
    case WeightFormat::kF32: return "f32";
    case WeightFormat::kFp8: return "fp8";
    case WeightFormat::kFp4: return "fp4";
  }
  return "?";
}

class LinearCase : public RowOp {
 public:
  LinearCase(WeightFormat format, int64_t in, int64_t out)
      : random_(1),
        in_(in),
        out_(out),
        a_(format, out, in, &random_),
        b_(format, 1, in, &random_),
        x_(in % 32 == 0 ? QuantisedRows(in, &random_)
                        : WithGarbage(random_.Values(kRows * in), in)) {}
  std::string name() const override {
    return "linear " + FormatName(a_.format()) + " " + std::to_string(in_);
  }
  bool multiplies() const override { return true; }
  Tolerance tolerance() const override { return kRoundedOnce; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> x = Pick(x_, in_, rows);
    std::vector<BF16> rounded(static_cast<size_t>(n * out_));
    std::vector<float> wide(rounded.size());
    std::vector<float> single(rows.size());
    const Projection projections[] = {
        {a_, rounded.data(), nullptr}, {b_, nullptr, single.data()}, {a_, nullptr, wide.data()}};
    ops.linear({{&team}, n, in_, x.data(), projections});
    RowOutputs out(rows.size());
    Append(&out, rounded, out_);
    Append(&out, single, 1);
    Append(&out, wide, out_);
    return out;
  }

 private:
  Random random_;
  int64_t in_, out_;
  OwnedMatrix a_, b_;
  std::vector<BF16> x_;
};

class GroupedLinearCase : public RowOp {
 public:
  std::string name() const override { return "grouped_linear"; }
  bool multiplies() const override { return true; }
  Tolerance tolerance() const override { return kQuantised; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> x = Pick(x_, kGroups * kIn, rows);
    std::vector<BF16> y(static_cast<size_t>(n * kGroups * kOut));
    ops.grouped_linear(
        {{&team}, n, kGroups, kIn, kOut, x.data(), weight_, RowFormat::kFp8E8M0, y.data()});
    RowOutputs out(rows.size());
    Append(&out, y, kGroups * kOut);
    return out;
  }

 private:
  static constexpr int64_t kGroups = 4, kIn = 96, kOut = 40;
  mutable Random random_{2};
  OwnedMatrix weight_{WeightFormat::kFp8, kGroups* kOut, kIn, &random_};
  std::vector<BF16> x_ = WithGarbage(random_.Values(kRows * kGroups * kIn), kGroups* kIn);
};

class NormCase : public RowOp {
 public:
  NormCase(int64_t width, RowFormat format) : random_(3), width_(width), format_(format) {}
  std::string name() const override { return "norm " + std::to_string(width_); }
  Tolerance tolerance() const override { return kQuantised; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> x = Pick(x_, width_, rows);
    std::vector<BF16> normed(x.size());
    std::vector<BF16> quantised(x.size());
    ops.norm({{&team},
              n,
              width_,
              x.data(),
              weight_.data(),
              1e-20f,
              format_,
              normed.data(),
              quantised.data()});
    RowOutputs out(rows.size());
    Append(&out, normed, width_);
    Append(&out, quantised, width_);
    return out;
  }

 private:
  mutable Random random_;
  int64_t width_;
  RowFormat format_;
  std::vector<BF16> x_ = WithGarbage(random_.Values(kRows * width_, 3.0f), width_);
  std::vector<BF16> weight_ = random_.Values(width_, 0.3f, 1.0f);
};

class MarkovCase : public RowOp {
 public:
  std::string name() const override { return "markov"; }
  bool multiplies() const override { return true; }
  Tolerance tolerance() const override { return kFp32; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> state = Pick(state_, kHidden + 3, rows);
    std::vector<float> logits = Pick(logits_, kVocab + 2, rows);
    std::vector<int32_t> previous;
    for (const int r : rows) previous.push_back((r * 7) % kVocab);
    std::vector<float> confidence(rows.size());
    ops.markov({{&team},
                n,
                kHidden,
                kRank,
                kVocab,
                previous.data(),
                nullptr,
                embed_.data(),
                head_,
                confidence_,
                state.data(),
                kHidden + 3,
                logits.data(),
                kVocab + 2,
                confidence.data()});
    RowOutputs out(rows.size());
    Append(&out, logits, kVocab + 2);
    Append(&out, confidence, 1);
    return out;
  }

 private:
  static constexpr int64_t kHidden = 75, kRank = 40, kVocab = 71;
  mutable Random random_{4};
  std::vector<BF16> embed_ = random_.Values(kVocab * kRank);
  OwnedMatrix head_{WeightFormat::kBF16, kVocab, kRank, &random_};
  OwnedMatrix confidence_{WeightFormat::kBF16, 1, kHidden + kRank, &random_};
  std::vector<BF16> state_ = WithGarbage(random_.Values(kRows * (kHidden + 3)), kHidden + 3);
  std::vector<float> logits_ = WithGarbage(random_.Floats(kRows * (kVocab + 2)), kVocab + 2);
};

class HyperPredictCase : public RowOp {
 public:
  HyperPredictCase(int64_t n, int64_t hidden, RowFormat format)
      : random_(5), n_(n), hidden_(hidden), format_(format) {}
  std::string name() const override { return "hyper_predict " + std::to_string(n_); }
  Tolerance tolerance() const override { return kQuantised; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto m = rows.size();
    const std::vector<BF16> streams = Pick(streams_, n_ * hidden_, rows);
    const std::vector<float> mix = Pick(mix_, n_, rows);
    std::vector<float> pre(m * static_cast<size_t>(n_)), post(pre.size());
    std::vector<float> comb(m * static_cast<size_t>(n_ * n_));
    std::vector<BF16> normed(m * static_cast<size_t>(hidden_)), quantised(normed.size());
    ops.hyper_predict({{&team},
                       static_cast<int64_t>(m),
                       n_,
                       hidden_,
                       streams.data(),
                       fn_.data(),
                       base_.data(),
                       scale_,
                       20,
                       1e-20f,
                       1e-6f,
                       mix.data(),
                       weight_.data(),
                       format_,
                       pre.data(),
                       post.data(),
                       comb.data(),
                       normed.data(),
                       quantised.data()});
    RowOutputs out(m);
    Append(&out, pre, n_);
    Append(&out, post, n_);
    Append(&out, comb, n_ * n_);
    Append(&out, normed, hidden_);
    Append(&out, quantised, hidden_);
    return out;
  }

 private:
  mutable Random random_;
  int64_t n_, hidden_;
  RowFormat format_;
  int64_t mixes_ = 2 * n_ + n_ * n_;
  std::vector<BF16> streams_ = WithGarbage(random_.Values(kRows * n_ * hidden_), n_* hidden_);
  std::vector<float> mix_ = WithGarbage(random_.Floats(kRows * n_), n_);
  std::vector<float> fn_ = random_.Floats(mixes_ * n_ * hidden_, 0.1f);
  std::vector<float> base_ = random_.Floats(mixes_);
  float scale_[3] = {0.7f, 1.1f, 0.9f};
  std::vector<BF16> weight_ = random_.Values(hidden_, 0.3f, 1.0f);
};

class HyperFinishCase : public RowOp {
 public:
  HyperFinishCase(int64_t n, int64_t hidden) : random_(6), n_(n), hidden_(hidden) {}
  std::string name() const override { return "hyper_finish " + std::to_string(n_); }
  Tolerance tolerance() const override { return kRoundedOnce; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto m = static_cast<int64_t>(rows.size());
    std::vector<BF16> streams = Pick(streams_, n_ * hidden_, rows);
    const std::vector<BF16> update = Pick(update_, hidden_, rows);
    const std::vector<float> post = Pick(post_, n_, rows);
    const std::vector<float> comb = Pick(comb_, n_ * n_, rows);
    ops.hyper_finish(
        {{&team}, m, n_, hidden_, update.data(), post.data(), comb.data(), streams.data()});
    RowOutputs out(rows.size());
    Append(&out, streams, n_ * hidden_);
    return out;
  }

 private:
  mutable Random random_;
  int64_t n_, hidden_;
  std::vector<BF16> streams_ = WithGarbage(random_.Values(kRows * n_ * hidden_), n_* hidden_);
  std::vector<BF16> update_ = WithGarbage(random_.Values(kRows * hidden_), hidden_);
  std::vector<float> post_ = WithGarbage(random_.Floats(kRows * n_), n_);
  std::vector<float> comb_ = WithGarbage(random_.Floats(kRows * n_ * n_), n_* n_);
};

// The ops that only look at the streams: last collapse and draft tap; and the embedding.
class StreamsCase : public RowOp {
 public:
  std::string name() const override { return "embed, collapse, tap"; }
  Tolerance tolerance() const override { return kQuantised; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto m = static_cast<int64_t>(rows.size());
    const std::vector<BF16> streams = Pick(streams_, kN * kHidden, rows);
    const std::vector<float> mix = Pick(mix_, kN, rows);
    std::vector<BF16> collapsed(static_cast<size_t>(m * kHidden)), normed(collapsed.size());
    ops.collapse({{&team},
                  m,
                  kN,
                  kHidden,
                  streams.data(),
                  mix.data(),
                  weight_.data(),
                  1e-20f,
                  collapsed.data(),
                  normed.data()});
    std::vector<BF16> tap(static_cast<size_t>(m * (kHidden + 1))), quantised(tap.size());
    ops.tap({{&team},
             m,
             kN,
             kHidden,
             streams.data(),
             RowFormat::kFp8E8M0,
             tap.data(),
             quantised.data(),
             kHidden + 1});
    std::vector<int32_t> ids;
    for (const int r : rows) ids.push_back(r);
    std::vector<BF16> embedded(streams.size());
    std::vector<float> first_mix(mix.size());
    ops.embed({{&team},
               m,
               kN,
               kHidden,
               ids.data(),
               nullptr,
               streams_.data(),
               embedded.data(),
               first_mix.data()});
    RowOutputs out(rows.size());
    Append(&out, collapsed, kHidden);
    Append(&out, normed, kHidden);
    Append(&out, tap, kHidden + 1);
    Append(&out, quantised, kHidden + 1);
    Append(&out, embedded, kN * kHidden);
    Append(&out, first_mix, kN);
    return out;
  }

 private:
  static constexpr int64_t kN = 4, kHidden = 96;
  mutable Random random_{7};
  std::vector<BF16> streams_ = WithGarbage(random_.Values(kRows * kN * kHidden), kN* kHidden);
  std::vector<float> mix_ = WithGarbage(random_.Floats(kRows * kN), kN);
  std::vector<BF16> weight_ = random_.Values(kHidden, 0.3f, 1.0f);
};

class GateCase : public RowOp {
 public:
  std::string name() const override { return "gate"; }
  bool multiplies() const override { return true; }
  Tolerance tolerance() const override { return kFp32; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> x = Pick(x_, kHidden, rows);
    std::vector<uint8_t> image;
    for (const int r : rows) image.push_back(r % 3 == 0 ? 1 : 0);
    std::vector<int32_t> chosen(static_cast<size_t>(n * kTopk));
    std::vector<float> weights(chosen.size());
    ops.gate({{&team},
              n,
              kHidden,
              kExperts,
              kTopk,
              x.data(),
              weight_,
              bias_.data(),
              image_bias_.data(),
              image.data(),
              1.5f,
              chosen.data(),
              weights.data()});
    RowOutputs out(rows.size());
    Append(&out, chosen, kTopk);
    Append(&out, weights, kTopk);
    return out;
  }

 private:
  static constexpr int64_t kHidden = 75, kExperts = 37, kTopk = 6;
  mutable Random random_{8};
  OwnedMatrix weight_{WeightFormat::kBF16, kExperts, kHidden, &random_};
  std::vector<float> bias_ = random_.Floats(kExperts), image_bias_ = random_.Floats(kExperts);
  std::vector<BF16> x_ = WithGarbage(random_.Values(kRows * kHidden, 2.0f), kHidden);
};

class ExpertsCase : public RowOp {
 public:
  ExpertsCase(WeightFormat format, int64_t inner, RowFormat quantise)
      : random_(9), format_(format), inner_(inner), quantise_(quantise) {
    const auto network = [&](WeightFormat f) {
      OwnedMatrix* w[3];
      for (auto& m : w) {
        const bool down = &m == &w[2];
        matrices_.push_back(std::make_unique<OwnedMatrix>(f, down ? kHidden : inner_,
                                                          down ? inner_ : kHidden, &random_));
        m = matrices_.back().get();
      }
      return FeedForward{*w[0], *w[1], *w[2]};
    };
    for (int e = 0; e < kExperts; ++e) experts_.push_back(network(format_));
    shared_ = network(format_ == WeightFormat::kFp4 ? WeightFormat::kFp8 : format_);
  }
  std::string name() const override { return "experts " + FormatName(format_); }
  bool multiplies() const override { return true; }
  Tolerance tolerance() const override { return kQuantised; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> x = Pick(x_, kHidden, rows);
    const std::vector<float> weights = Pick(weights_, kTopk, rows);
    std::vector<int32_t> chosen;
    for (const int r : rows) {
      for (int i = 0; i < kTopk; ++i) chosen.push_back((r % 4) + 2 * i);
    }
    std::vector<BF16> y(static_cast<size_t>(n * kHidden));
    ops.experts({{&team},
                 n,
                 kHidden,
                 inner_,
                 kTopk,
                 x.data(),
                 chosen.data(),
                 weights.data(),
                 experts_,
                 shared_,
                 10.0f,
                 quantise_,
                 y.data()});
    RowOutputs out(rows.size());
    Append(&out, y, kHidden);
    return out;
  }

 private:
  static constexpr int kExperts = 9, kTopk = 3;
  static constexpr int64_t kHidden = 96;
  mutable Random random_;
  WeightFormat format_;
  int64_t inner_;
  RowFormat quantise_;
  std::vector<std::unique_ptr<OwnedMatrix>> matrices_;
  std::vector<FeedForward> experts_;
  FeedForward shared_;
  std::vector<BF16> x_ = QuantisedRows(kHidden, &random_);
  std::vector<float> weights_ = WithGarbage(random_.Floats(kRows * kTopk, 0.2f, 0.5f), kTopk);
};

}  // namespace

void AddProjectionCases(RowOps* cases) {
  cases->push_back(std::make_unique<LinearCase>(WeightFormat::kFp8, 96, 70));
  cases->push_back(std::make_unique<LinearCase>(WeightFormat::kFp8, 1056, 21));
  cases->push_back(std::make_unique<LinearCase>(WeightFormat::kFp4, 64, 35));
  cases->push_back(std::make_unique<LinearCase>(WeightFormat::kFp4, 544, 17));
  cases->push_back(std::make_unique<LinearCase>(WeightFormat::kBF16, 160, 33));
  cases->push_back(std::make_unique<LinearCase>(WeightFormat::kBF16, 75, 19));
  cases->push_back(std::make_unique<LinearCase>(WeightFormat::kF32, 128, 18));
  cases->push_back(std::make_unique<LinearCase>(WeightFormat::kF32, 531, 5));
  cases->push_back(std::make_unique<GroupedLinearCase>());
  cases->push_back(std::make_unique<NormCase>(96, RowFormat::kFp8E8M0));
  cases->push_back(std::make_unique<NormCase>(75, RowFormat::kBF16));
  cases->push_back(std::make_unique<MarkovCase>());
}

void AddHyperConnectionCases(RowOps* cases) {
  cases->push_back(std::make_unique<HyperPredictCase>(4, 96, RowFormat::kFp8E8M0));
  cases->push_back(std::make_unique<HyperPredictCase>(3, 45, RowFormat::kBF16));
  cases->push_back(std::make_unique<HyperFinishCase>(4, 96));
  cases->push_back(std::make_unique<HyperFinishCase>(4, 45));
  cases->push_back(std::make_unique<HyperFinishCase>(3, 45));
  cases->push_back(std::make_unique<StreamsCase>());
}

void AddExpertCases(RowOps* cases) {
  cases->push_back(std::make_unique<GateCase>());
  cases->push_back(std::make_unique<ExpertsCase>(WeightFormat::kFp4, 64, RowFormat::kFp8E8M0));
  cases->push_back(std::make_unique<ExpertsCase>(WeightFormat::kFp8, 96, RowFormat::kFp8E8M0));
  cases->push_back(std::make_unique<ExpertsCase>(WeightFormat::kBF16, 45, RowFormat::kBF16));
}

}  // namespace thalweg::kernels::testing
