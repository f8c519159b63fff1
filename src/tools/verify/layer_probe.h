// The probe that feeds one forward with the stored inputs of every layer and judges what each part
// makes of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/probe.h"
#include "tensor/row_format.h"
#include "tools/verify/context.h"
#include "tools/verify/figures.h"

namespace thalweg::tools {

// Runs along with one forward over the whole prompt of a dump, from position 0. Every point is
// first compared with what the golden folder stores for it, over the rows whose inputs were fed,
// and then overwritten with the stored rows, so that each part is judged from stored inputs.
class LayerProbe : public model::Probe {
 public:
  LayerProbe(VerifyContext& context, std::string dump, int64_t tokens, kvpool::SequenceId sequence);

  bool Wants(int layer, std::string_view point) const override;
  void See(int layer, std::string_view point, const tensor::MutableView& view) override;
  // The first entry that could not be used.
  Status status() const { return status_; }

 private:
  // One observed tensor.
  struct Seen {
    int layer = 0;
    std::string_view point;
    const tensor::MutableView& view;
  };
  using Handler = Status (LayerProbe::*)(const Seen&);
  static const std::map<std::string_view, Handler>& Handlers();

  // Points, in forward order (layer_probe.cc, layer_index.cc, layer_experts.cc).
  Status SeeEngramRows(const Seen& seen);
  Status SeeEngramStreams(const Seen& seen);
  Status SeeAttentionCoefficients(const Seen& seen);
  Status SeeAttnIn(const Seen& seen);
  Status SeeWindowKv(const Seen& seen);
  Status SeeCompressedKv(const Seen& seen);
  Status SeeIndexK(const Seen& seen);
  Status SeePending(const Seen& seen);
  Status SeeIndexQ(const Seen& seen);
  Status SeeIndexW(const Seen& seen);
  Status SeeCandidates(const Seen& seen);
  Status SeeIndexSel(const Seen& seen);
  Status SeeAttnOut(const Seen& seen);
  Status SeeFfnCoefficients(const Seen& seen);
  Status SeeFfnIn(const Seen& seen);
  Status SeeRouterExperts(const Seen& seen);
  Status SeeRouterWeights(const Seen& seen);
  Status SeeMoeOut(const Seen& seen);
  Status SeeStreamsOut(const Seen& seen);
  Status SeePreMixOut(const Seen& seen);
  Status SeeTaps(const Seen& seen);

  std::string Entry(int layer, std::string_view point) const;
  bool Stored(const Seen& seen) const { return golden().Has(Entry(seen.layer, seen.point)); }
  const GoldenFolder& golden() const { return context_.golden; }
  const checkpoint::LayerPlan& plan(int layer) const { return plans_[static_cast<size_t>(layer)]; }
  CheckId Id(int layer, std::string_view point, std::string_view figure = "") const;

  // The stored rows of a point: dtype and width as observed, at most as many rows.
  Result<tensor::View> StoredRows(const Seen& seen) const;
  // Overwrites the last rows with the stored ones; returns how many, 0 when none are stored.
  Result<int64_t> Feed(const Seen& seen);
  // Judges the last `rows` rows, or fewer when fewer are stored.
  Status JudgeDense(const Seen& seen, int64_t rows, const DenseLimit& limit,
                    bool leave_out_moved = false);
  Status JudgeAbsolute(const Seen& seen, int64_t rows, double limit);
  Status JudgeCache(const Seen& seen, int64_t rows, tensor::RowFormat format);
  // Encodes the stored rows of an owner into the cache.
  Status FeedCache(const Seen& seen, const tensor::PagedRows& rows);

  int64_t Visible(int layer, int64_t row) const { return (row + 1) / plan(layer).ratio; }
  // Stored scores [tokens, entries], finite wherever visible.
  Result<Rows> StoredScores(int layer) const;
  // Our scores, in exact arithmetic from what our part makes, against the stored ones.
  // A figure in units of the tie tolerance.
  void JudgeTies(int layer, std::string_view part, double worst);
  void JudgeScores(int layer, const Rows& weights, const Rows& want);
  // Stored candidate pool that a layer selects from, [tokens, entries]; empty: no restriction.
  Result<std::vector<uint8_t>> AllowedEntries(int layer, int64_t entries) const;
  Status JudgeSelection(const Seen& seen, const Rows& scores);
  Status FeedSelection(const Seen& seen);

  bool SameExperts(int64_t row, const int32_t* stored) const;
  double WeightError(int64_t row, const float* got, const int32_t* experts,
                     const float* weights) const;
  // Gap between the k-th and the next biased score of a row, from its stored input.
  Result<double> RouterGap(int layer, int64_t row) const;

  VerifyContext& context_;
  const std::string dump_;
  const int64_t tokens_;
  const kvpool::SequenceId sequence_;
  const std::vector<checkpoint::LayerPlan> plans_;
  Status status_;

  // Last rows whose inputs are the stored ones (or exact, at the embedding).
  int64_t streams_rows_ = 0;
  int64_t next_streams_rows_ = 0;
  int64_t attn_rows_ = 0;
  int64_t ffn_rows_ = 0;

  std::map<int, Rows> index_keys_;  // of each owner, as fed
  Rows index_q_;                    // of the newest index source
  std::vector<int32_t> experts_;    // [tokens, topk] of the newest router
  std::vector<uint8_t> moved_;      // [tokens]: another expert set than stored
};

}  // namespace thalweg::tools
