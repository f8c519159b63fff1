// Products of any shape: every target of the cpu backend gives the same bits, packed or not, alone
// or among other rows, on one thread or several, in both numerics; and is as close to the reference
// as the number of terms (exact) or the steps of int8 (fast) allow. The input's bytes choose the
// shape.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/backends.h"
#include "kernels/test_kit.h"
#include "tensor/buffer.h"

namespace {

using namespace thalweg;
using namespace thalweg::kernels;
using kernels::testing::OwnedMatrix;
using kernels::testing::Random;

struct Shape {
  WeightFormat format = WeightFormat::kBF16;
  int64_t rows = 0, in = 0, out = 0;
  int threads = 1;
  bool experts = false;
  uint32_t seed = 0;
};

// Byte i of the input; one that the input lacks follows from those it has, or the short inputs that
// a fuzzer begins with would all be of one output and one thread.
uint8_t ByteAt(const uint8_t* data, size_t size, size_t i) {
  if (i < size) return data[i];
  uint32_t mix = static_cast<uint32_t>(i + 1) * 0x9e3779b9u;
  for (size_t at = 0; at < size; ++at) mix = (mix ^ data[at]) * 0x01000193u;
  mix ^= mix >> 15;
  return static_cast<uint8_t>(mix * 0x85ebca6bu >> 24);
}

// Quantised formats come in whole groups of 32 columns; everything else is free.
Shape ShapeFrom(const uint8_t* data, size_t size) {
  const auto byte = [&](size_t i) { return int64_t{ByteAt(data, size, i)}; };
  Shape s;
  s.format = static_cast<WeightFormat>(byte(0) % 4);
  s.experts = byte(0) % 8 >= 4;
  s.rows = byte(1) % 18;
  s.in = 1 + (byte(2) | byte(3) << 8) % 600;
  if (s.format == WeightFormat::kFp8 || s.format == WeightFormat::kFp4 || s.experts)
    s.in = base::RoundUp<int64_t>(s.in, 32);
  s.out = 1 + byte(4) % 130;
  s.threads = 1 + static_cast<int>(byte(5) % 3);
  s.seed = static_cast<uint32_t>(byte(6));
  return s;
}

const base::ThreadTeam& Team(int threads) {
  static const base::ThreadTeam teams[] = {base::ThreadTeam(1), base::ThreadTeam(2),
                                           base::ThreadTeam(3)};
  return teams[threads - 1];
}

// A matrix and, when a backend packs it, that form of it.
class Packed {
 public:
  Packed(const Ops& ops, const Matrix& stored, bool pack) : matrix_(stored) {
    const int64_t bytes = pack ? ops.packed_bytes(stored) : 0;
    if (bytes == 0) return;
    memory_ = tensor::Buffer(bytes);
    ops.pack({&Team(1)}, stored, memory_.data());
    matrix_.packed = memory_.data();
  }
  const Matrix& matrix() const { return matrix_; }

 private:
  Matrix matrix_;
  tensor::Buffer memory_;
};

// One product or one expert network, with inputs.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual int64_t width() const = 0;  // values that a row writes
  // Rows [first, first + rows) of the input.
  virtual std::vector<float> Run(const Ops& ops, int64_t first, int64_t rows, int threads,
                                 bool pack) const = 0;
  virtual void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                           Numerics numerics) const = 0;
};

std::vector<BF16> Inputs(const Shape& s, Random* random) {
  std::vector<BF16> x = random->Values(s.rows * s.in);
  if (s.in % 32 != 0) return x;
  for (int64_t r = 0; r < s.rows; ++r)
    tensor::RoundTripRow(RowFormat::kFp8E8M0, x.data() + r * s.in, s.in, x.data() + r * s.in);
  return x;
}

class LinearSubject : public Subject {
 public:
  explicit LinearSubject(const Shape& s)
      : shape_(s), random_(s.seed), weight_(s.format, s.out, s.in, &random_) {
    x_ = Inputs(s, &random_);
    weights_ = Weights();
  }
  int64_t width() const override { return shape_.out; }

  std::vector<float> Run(const Ops& ops, int64_t first, int64_t rows, int threads,
                         bool pack) const override {
    const Packed packed(ops, weight_, pack);
    return Multiply(ops, packed.matrix(), x_.data() + first * shape_.in, rows, threads);
  }

  // Every value within what its own terms allow.
  void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                   Numerics numerics) const override {
    for (size_t i = 0; i < got.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / shape_.out;
      const int64_t out = static_cast<int64_t>(i) % shape_.out;
      const double limit = numerics == Numerics::kExact ? TermsLimit(weights_, row, out)
                                                        : StepsLimit(weights_, row, out);
      TW_CHECK_LE(std::fabs(static_cast<double>(got[i]) - want[i]), limit);
    }
  }

 private:
  std::vector<float> Multiply(const Ops& ops, const Matrix& weight, const BF16* x, int64_t rows,
                              int threads) const {
    std::vector<float> y(static_cast<size_t>(rows * shape_.out));
    const Projection projection{.weight = weight, .out_f32 = y.data()};
    ops.linear({{&Team(threads)}, rows, shape_.in, x, {&projection, 1}});
    return y;
  }

  // [in, out], as the products of unit rows show them.
  std::vector<float> Weights() const {
    std::vector<BF16> unit(static_cast<size_t>(shape_.in * shape_.in));
    for (int64_t i = 0; i < shape_.in; ++i)
      unit[static_cast<size_t>(i * shape_.in + i)] = tensor::ToBF16(1.0f);
    return Multiply(ReferenceOps(), weight_, unit.data(), shape_.in, 1);
  }
  double X(int64_t row, int64_t i) const {
    return std::fabs(ToFloat(x_[static_cast<size_t>(row * shape_.in + i)]));
  }
  double W(const std::vector<float>& w, int64_t i, int64_t out) const {
    return std::fabs(w[static_cast<size_t>(i * shape_.out + out)]);
  }

  // fp32 sums in any order.
  double TermsLimit(const std::vector<float>& w, int64_t row, int64_t out) const {
    double terms = 1e-30;
    for (int64_t i = 0; i < shape_.in; ++i) terms += X(row, i) * W(w, i, out);
    return terms * static_cast<double>(shape_.in + 4) * 0x1p-23;
  }
  // Activations and weights in steps of a 127th of the largest of 32.
  double StepsLimit(const std::vector<float>& w, int64_t row, int64_t out) const {
    double limit = TermsLimit(w, row, out);
    for (int64_t begin = 0; begin < shape_.in; begin += 32) {
      const int64_t end = std::min(begin + 32, shape_.in);
      double x = 0, y = 0;
      for (int64_t i = begin; i < end; ++i) {
        x = std::max(x, X(row, i));
        y = std::max(y, W(w, i, out));
      }
      limit += static_cast<double>(end - begin) * x * y / 100;
    }
    return limit;
  }

  Shape shape_;
  Random random_;
  OwnedMatrix weight_;
  std::vector<BF16> x_;
  std::vector<float> weights_;
};

// Two experts and a shared one; every row chooses both in some order of weight.
class ExpertsSubject : public Subject {
 public:
  explicit ExpertsSubject(const Shape& s)
      : shape_(s), inner_(base::RoundUp<int64_t>(s.out, 32)), random_(s.seed) {
    for (int i = 0; i < 3; ++i) {
      matrices_.emplace_back(Format(), inner_, s.in, &random_);
      matrices_.emplace_back(Format(), inner_, s.in, &random_);
      matrices_.emplace_back(Format(), s.in, inner_, &random_);
    }
    x_ = Inputs(s, &random_);
    for (int64_t r = 0; r < s.rows; ++r) {
      chosen_.insert(chosen_.end(), {0, 1});
      weights_.insert(weights_.end(), {std::fabs(random_.Normal()), std::fabs(random_.Normal())});
    }
  }
  int64_t width() const override { return shape_.in; }

  std::vector<float> Run(const Ops& ops, int64_t first, int64_t rows, int threads,
                         bool pack) const override {
    std::vector<Packed> packed;
    for (const OwnedMatrix& matrix : matrices_) packed.emplace_back(ops, matrix, pack);
    std::vector<FeedForward> networks;
    for (size_t i = 0; i < packed.size(); i += 3)
      networks.push_back({packed[i].matrix(), packed[i + 1].matrix(), packed[i + 2].matrix()});
    std::vector<BF16> y(static_cast<size_t>(rows * shape_.in));
    ops.experts({.stream = {&Team(threads)},
                 .rows = rows,
                 .hidden = shape_.in,
                 .inner = inner_,
                 .topk = 2,
                 .x = x_.data() + first * shape_.in,
                 .chosen = chosen_.data() + first * 2,
                 .weights = weights_.data() + first * 2,
                 .experts = std::span(networks).first(2),
                 .shared = networks[2],
                 .swiglu_limit = 10,
                 .out = y.data()});
    std::vector<float> out;
    for (const BF16 value : y) out.push_back(ToFloat(value));
    return out;
  }

  // The down projection's input is quantised in between: close as a whole.
  void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                   Numerics numerics) const override {
    double error = 0, size = 1e-20;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - want[i], 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    TW_CHECK_LE(std::sqrt(error / size), numerics == Numerics::kExact ? 0.1 : 0.2);
  }

 private:
  WeightFormat Format() const {
    return shape_.format == WeightFormat::kFp8 ? WeightFormat::kFp8 : WeightFormat::kFp4;
  }

  Shape shape_;
  int64_t inner_;
  Random random_;
  std::vector<OwnedMatrix> matrices_;
  std::vector<BF16> x_;
  std::vector<int32_t> chosen_;
  std::vector<float> weights_;
};

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  TW_CHECK_EQ(a.size(), b.size());
  TW_CHECK(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void CheckTarget(const Subject& subject, const Shape& s, const Ops& ops,
                 const std::vector<float>& expected) {
  ExpectSameBits(subject.Run(ops, 0, s.rows, s.threads, true), expected);
  ExpectSameBits(subject.Run(ops, 0, s.rows, 1, false), expected);
  for (int64_t r = 0; r < s.rows; ++r) {
    const auto begin = expected.begin() + r * subject.width();
    ExpectSameBits(subject.Run(ops, r, 1, s.threads, r % 2 == 0), {begin, begin + subject.width()});
  }
}

void Check(const Subject& subject, const Shape& s) {
  const std::vector<float> reference = subject.Run(ReferenceOps(), 0, s.rows, 1, false);
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const std::vector<float> expected =
        subject.Run(**CpuOps("generic", numerics), 0, s.rows, 1, false);
    subject.ExpectClose(expected, reference, numerics);
    for (const CpuTarget& target : CpuTargets()) {
      if (!target.supported) continue;
      const Ops& ops = **CpuOps(target.name, numerics);
      const Ops& plain = kernels::testing::PlainestLike(ops);
      const bool same = plain.sums == SumOrder::kPairByPair;
      const std::vector<float> own = same ? expected : subject.Run(plain, 0, s.rows, 1, false);
      if (!same) subject.ExpectClose(own, reference, numerics);
      CheckTarget(subject, s, ops, own);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Shape shape = ShapeFrom(data, size);
  if (shape.experts) {
    Check(ExpertsSubject(shape), shape);
  } else {
    Check(LinearSubject(shape), shape);
  }
  return 0;
}
