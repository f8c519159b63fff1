// Cache rows, attention, selection and Engram as rows through an op (see row_ops_test.cc).
#include <algorithm>

#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

constexpr Tolerance kStored = {3e-2, 1.0};  // a code one step off on a few values

// Encoded rows back as numbers.
std::vector<float> Decoded(RowFormat format, const std::vector<uint8_t>& bytes, int64_t rows,
                           int64_t width) {
  std::vector<float> out(static_cast<size_t>(rows * width));
  for (int64_t r = 0; r < rows; ++r) {
    tensor::DecodeRow(format, bytes.data() + r * tensor::RowBytes(format, width), width,
                      out.data() + r * width);
  }
  return out;
}

class WindowRowsCase : public RowOp {
 public:
  std::string name() const override { return "window_rows"; }
  Tolerance tolerance() const override { return kStored; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> kv = Pick(kv_, kWidth, rows);
    const PickedAngles angles(angles_, rows);
    const int64_t row_bytes = tensor::RowBytes(RowFormat::kFp8E8M0, kWidth);
    std::vector<uint8_t> bytes(static_cast<size_t>(n * row_bytes));
    ops.window_rows({{&team},
                     n,
                     kWidth,
                     kv.data(),
                     weight_.data(),
                     1e-20f,
                     angles.rotation,
                     RowFormat::kFp8E8M0,
                     bytes.data()});
    RowOutputs out(rows.size());
    Append(&out, Decoded(RowFormat::kFp8E8M0, bytes, n, kWidth), kWidth);
    return out;
  }

 private:
  static constexpr int64_t kWidth = 96;
  mutable Random random_{20};
  std::vector<BF16> kv_ = WithGarbage(random_.Values(kRows * kWidth), kWidth);
  std::vector<BF16> weight_ = random_.Values(kWidth, 0.3f, 1.0f);
  Angles angles_{40, &random_};
};

class StoreRowsCase : public RowOp {
 public:
  StoreRowsCase(RowFormat format, bool norm) : format_(format), norm_(norm) {}
  std::string name() const override {
    return "store_rows " + std::string(tensor::RowFormatName(format_));
  }
  Tolerance tolerance() const override { return kStored; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> x = Pick(x_, kWidth, rows);
    const PickedAngles angles(angles_, rows);
    const int64_t row_bytes = tensor::RowBytes(format_, kWidth);
    std::vector<uint8_t> bytes(static_cast<size_t>(n * row_bytes));
    std::vector<uint8_t*> places;
    for (int64_t r = 0; r < n; ++r) places.push_back(bytes.data() + r * row_bytes);
    ops.store_rows({{&team},
                    n,
                    kWidth,
                    x.data(),
                    norm_ ? weight_.data() : nullptr,
                    1e-20f,
                    angles.rotation,
                    format_,
                    places.data()});
    RowOutputs out(rows.size());
    Append(&out, Decoded(format_, bytes, n, kWidth), kWidth);
    return out;
  }

 private:
  static constexpr int64_t kWidth = 96;
  RowFormat format_;
  bool norm_;
  mutable Random random_{21};
  std::vector<BF16> x_ = WithGarbage(random_.Values(kRows * kWidth), kWidth);
  std::vector<BF16> weight_ = random_.Values(kWidth, 0.3f, 1.0f);
  Angles angles_{32, &random_};
};

class PoolCase : public RowOp {
 public:
  explicit PoolCase(int64_t ratio) : ratio_(ratio) {}
  std::string name() const override { return "pool " + std::to_string(ratio_); }
  Tolerance tolerance() const override { return {2e-3, 4e-2}; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    const std::vector<BF16> kv = Pick(kv_, kWidth, rows);
    std::vector<const float*> at[4];
    for (const int r : rows) {
      for (int i = 0; i < 4; ++i) at[i].push_back(values_[i].data() + r * kWidth);
    }
    std::vector<BF16> latent(kv.size());
    ops.pool({{&team},
              n,
              kWidth,
              ratio_,
              kv.data(),
              at[0],
              at[1],
              at[2],
              at[3],
              weight_.data(),
              1e-20f,
              latent.data()});
    RowOutputs out(rows.size());
    Append(&out, latent, kWidth);
    return out;
  }

 private:
  static constexpr int64_t kWidth = 75;
  int64_t ratio_;
  mutable Random random_{22};
  std::vector<BF16> kv_ = WithGarbage(random_.Values(kRows * kWidth), kWidth);
  std::vector<float> values_[4] = {WithGarbage(random_.Floats(kRows * kWidth), kWidth),
                                   WithGarbage(random_.Floats(kRows* kWidth, 3.0f), kWidth),
                                   WithGarbage(random_.Floats(kRows* kWidth), kWidth),
                                   WithGarbage(random_.Floats(kRows* kWidth, 3.0f), kWidth)};
  std::vector<BF16> weight_ = random_.Values(kWidth, 0.3f, 1.0f);
};

// Encoded random rows in blocks of four, in a scrambled order, for one sequence.
struct Pages {
  std::vector<uint8_t> pool;
  std::vector<int32_t> blocks;
  PagedRows rows;

  Pages(RowFormat format, int64_t width, int64_t count, Random* random) {
    constexpr int64_t kRowsPerBlock = 4;
    const int64_t row_bytes = tensor::RowBytes(format, width);
    const int64_t block_count = (count + kRowsPerBlock - 1) / kRowsPerBlock;
    for (int64_t b = 0; b < block_count; ++b) {
      blocks.push_back(static_cast<int32_t>(block_count - 1 - b));
    }
    pool.resize(static_cast<size_t>(block_count * kRowsPerBlock * row_bytes));
    rows = {pool.data(), blocks.data(), kRowsPerBlock, kRowsPerBlock * row_bytes,
            row_bytes,   width,         format,        block_count};
    for (int64_t i = 0; i < count; ++i) {
      const std::vector<BF16> row = random->Values(width);
      tensor::EncodeRow(format, row.data(), width, rows.Row(i));
    }
  }
};

constexpr int kSequences = 4;  // the last one belongs to the garbage row

// Neighbours share a sequence: what they may share of its decoded keys has to show no trace.
int SequenceOf(int row) { return row == kGarbage ? kSequences - 1 : row / 27; }
int64_t PositionOf(int row) { return row == kGarbage ? 50 : row * 3 / 4 + 2; }

class AttentionCase : public RowOp {
 public:
  AttentionCase(int64_t heads, int64_t width, bool selected)
      : random_(23), heads_(heads), width_(width), selected_(selected) {
    for (int s = 0; s < kSequences; ++s) {
      pages_.emplace_back(RowFormat::kFp4E4M3, width, 64, &random_);
      for (int64_t p = 0; p < kPositions; ++p) {
        const std::vector<BF16> row = random_.Values(width_);
        tensor::EncodeRow(kFormat, row.data(), width_, bytes_[s].data() + p * row_bytes_);
        // The ring holds what comes before the chunk.
        if (p >= kChunkBegin) continue;
        std::copy_n(bytes_[s].data() + p * row_bytes_, row_bytes_,
                    ring_[s].data() + p % kRing * row_bytes_);
      }
    }
    std::fill(bytes_[3].begin(), bytes_[3].end(), uint8_t{0x7f});  // NaN
    std::fill(ring_[3].begin(), ring_[3].end(), uint8_t{0x7f});
  }
  std::string name() const override {
    return "attention " + std::to_string(heads_) + "x" + std::to_string(width_) +
           (selected_ ? " selected" : "");
  }
  Tolerance tolerance() const override { return {2e-2, 0.15}; }  // bf16 probabilities
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    std::vector<BF16> query = Pick(query_, heads_ * width_, rows);
    const PickedAngles angles(angles_, rows);
    std::vector<int32_t> sequence, selection;
    std::vector<int64_t> end;
    std::vector<WindowKeys> keys;
    std::vector<PagedRows> paged;
    for (const int r : rows) {
      sequence.push_back(SequenceOf(r));
      end.push_back(PositionOf(r));
      for (int i = 0; i < kTopk; ++i) selection.push_back(i < r % (kTopk + 1) ? i * 2 + r % 3 : -1);
    }
    for (int s = 0; s < kSequences; ++s) {
      // A replay of sequence 2 begins late: its first rows have an empty window, others a short
      // one.
      keys.push_back({ring_[s].data(), kRing, bytes_[s].data() + kChunkBegin * row_bytes_,
                      kChunkBegin, s == 2 ? 50 : 0});
      paged.push_back(pages_[static_cast<size_t>(s)].rows);
    }
    std::vector<BF16> y(query.size());
    ops.attention({{&team},
                   n,
                   heads_,
                   width_,
                   kWindow,
                   query.data(),
                   angles.rotation,
                   1.0f / std::sqrt(static_cast<float>(width_)),
                   sink_.data(),
                   sequence.data(),
                   end.data(),
                   keys.data(),
                   kFormat,
                   selected_ ? paged.data() : nullptr,
                   selection.data(),
                   kTopk,
                   y.data()});
    RowOutputs out(rows.size());
    Append(&out, y, heads_ * width_);
    return out;
  }

 private:
  static constexpr int kTopk = 20;
  static constexpr int64_t kWindow = 24, kPositions = 80, kChunkBegin = 21, kRing = 32;
  static constexpr RowFormat kFormat = RowFormat::kFp8E8M0;
  mutable Random random_;
  int64_t heads_, width_;
  bool selected_;
  int64_t row_bytes_ = tensor::RowBytes(kFormat, width_);
  std::vector<BF16> query_ = WithGarbage(random_.Values(kRows * heads_ * width_), heads_* width_);
  std::vector<float> sink_ = random_.Floats(heads_);
  Angles angles_{32, &random_};
  std::vector<Pages> pages_;
  std::vector<std::vector<uint8_t>> bytes_{
      kSequences, std::vector<uint8_t>(static_cast<size_t>(kPositions* row_bytes_))};
  std::vector<std::vector<uint8_t>> ring_{
      kSequences, std::vector<uint8_t>(static_cast<size_t>(kRing* row_bytes_))};
};

// Choices are compared in selection_test.cc, where ties and rounding are known; here only the
// fast backends among themselves and with their own single rows.
class IndexSelectCase : public RowOp {
 public:
  IndexSelectCase(bool make, bool restrict_to) : make_(make), restrict_(restrict_to) {
    for (int s = 0; s < kSequences; ++s) {
      pages_.emplace_back(RowFormat::kFp4E8M0, kWidth, 300, &random_);
    }
  }
  std::string name() const override {
    return std::string("index_select") + (make_ ? " makes" : "") + (restrict_ ? " restricted" : "");
  }
  Tolerance tolerance() const override { return {1e9, 1e9}; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = rows.size();
    std::vector<BF16> query = Pick(query_, kHeads * kWidth, rows);
    std::vector<BF16> weight = Pick(weight_, kHeads, rows);
    const PickedAngles angles(angles_, rows);
    std::vector<int32_t> sequence, selection(n * kTopk), made(n * kCapacity), given;
    std::vector<int64_t> visible, made_count(n), given_count;
    for (const int r : rows) {
      sequence.push_back(SequenceOf(r));
      visible.push_back(r == kGarbage ? 200 : r * 3 + r % 5);
      const int64_t blocks = (visible.back() + kBlock - 1) / kBlock;
      given_count.push_back(blocks > kCapacity ? kCapacity : -1);
      for (int i = 0; i < kCapacity; ++i) {
        given.push_back(static_cast<int32_t>(blocks - kCapacity + i));
      }
    }
    std::vector<PagedRows> keys;
    for (const Pages& pages : pages_) keys.push_back(pages.rows);
    CandidateSets make = {made.data(), made_count.data(), kCapacity, kBlock};
    CandidateSets restrict_to = {given.data(), given_count.data(), kCapacity, kBlock};
    ops.index_select({{&team},
                      static_cast<int64_t>(n),
                      kHeads,
                      kWidth,
                      kTopk,
                      query.data(),
                      weight.data(),
                      0.03f,
                      angles.rotation,
                      RowFormat::kFp4E8M0,
                      keys.data(),
                      sequence.data(),
                      visible.data(),
                      0,
                      restrict_ ? &restrict_to : nullptr,
                      make_ ? &make : nullptr,
                      selection.data()});
    for (size_t i = 0; make_ && i < n; ++i) {  // what lies behind the count is unspecified
      for (int64_t b = std::max<int64_t>(0, made_count[i]); b < kCapacity; ++b) {
        made[i * kCapacity + static_cast<size_t>(b)] = -1;
      }
    }
    RowOutputs out(n);
    Append(&out, query, kHeads * kWidth);
    Append(&out, weight, kHeads);
    Append(&out, selection, kTopk);
    Append(&out, made, kCapacity);
    return out;
  }

 private:
  static constexpr int64_t kHeads = 5, kWidth = 64, kTopk = 12, kCapacity = 6, kBlock = 8;
  bool make_, restrict_;
  mutable Random random_{24};
  std::vector<BF16> query_ = WithGarbage(random_.Values(kRows * kHeads * kWidth), kHeads* kWidth);
  std::vector<BF16> weight_ = WithGarbage(random_.Values(kRows * kHeads), kHeads);
  Angles angles_{32, &random_};
  std::vector<Pages> pages_;
};

class EngramCase : public RowOp {
 public:
  std::string name() const override { return "engram_gather, engram_gate"; }
  Tolerance tolerance() const override { return {2e-3, 4e-2}; }
  RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const override {
    const auto n = static_cast<int64_t>(rows.size());
    std::vector<int64_t> table_rows;
    std::vector<uint8_t> dead;
    for (const int r : rows) {
      for (int c = 0; c < kColumns; ++c) table_rows.push_back((r * 13 + c * 5) % kTable);
      dead.push_back(r % 5 == 4 ? 1 : 0);
    }
    std::vector<BF16> gathered(static_cast<size_t>(n * kColumns * kWidth));
    ops.engram_gather({{&team},
                       n,
                       kColumns,
                       kWidth,
                       table_rows.data(),
                       false,
                       codes_.data(),
                       scales_.data(),
                       RowFormat::kFp8E8M0,
                       gathered.data()});
    const std::vector<BF16> kv = Pick(kv_, (kN + 1) * kHidden, rows);
    std::vector<BF16> streams = Pick(streams_, kN * kHidden, rows);
    ops.engram_gate({{&team},
                     n,
                     kN,
                     kHidden,
                     kv.data(),
                     q_.data(),
                     k_.data(),
                     1e-20f,
                     dead.data(),
                     streams.data()});
    RowOutputs out(rows.size());
    Append(&out, gathered, kColumns * kWidth);
    Append(&out, streams, kN * kHidden);
    return out;
  }

 private:
  static constexpr int64_t kColumns = 3, kWidth = 64, kTable = 50, kN = 4, kHidden = 75;
  mutable Random random_{25};
  std::vector<uint8_t> codes_ = [this] {
    std::vector<uint8_t> codes = random_.Codes(kTable * kWidth);
    for (uint8_t& code : codes) code = (code & 0x7fu) == 0x7fu ? 0 : code;
    return codes;
  }();
  std::vector<uint8_t> scales_ = std::vector<uint8_t>(kTable * kWidth / 32, 118);
  std::vector<BF16> kv_ =
      WithGarbage(random_.Values(kRows * (kN + 1) * kHidden), (kN + 1) * kHidden);
  std::vector<BF16> streams_ = WithGarbage(random_.Values(kRows * kN * kHidden), kN* kHidden);
  std::vector<float> q_ = random_.Floats(kN * kHidden, 0.3f, 1.0f);
  std::vector<float> k_ = random_.Floats(kN * kHidden, 0.3f, 1.0f);
};

}  // namespace

void AddCacheCases(RowOps* cases) {
  cases->push_back(std::make_unique<WindowRowsCase>());
  cases->push_back(std::make_unique<StoreRowsCase>(RowFormat::kFp4E4M3, false));
  cases->push_back(std::make_unique<StoreRowsCase>(RowFormat::kFp4E8M0, true));
  cases->push_back(std::make_unique<StoreRowsCase>(RowFormat::kBF16, true));
  cases->push_back(std::make_unique<PoolCase>(1));
  cases->push_back(std::make_unique<PoolCase>(2));
}

void AddAttentionCases(RowOps* cases) {
  cases->push_back(std::make_unique<AttentionCase>(5, 96, true));
  cases->push_back(std::make_unique<AttentionCase>(16, 64, true));
  cases->push_back(std::make_unique<AttentionCase>(4, 64, false));
  cases->push_back(std::make_unique<AttentionCase>(40, 96, true));
  cases->push_back(std::make_unique<IndexSelectCase>(false, false));
  cases->push_back(std::make_unique<IndexSelectCase>(true, false));
  cases->push_back(std::make_unique<IndexSelectCase>(false, true));
}

void AddEngramCases(RowOps* cases) { cases->push_back(std::make_unique<EngramCase>()); }

}  // namespace thalweg::kernels::testing
