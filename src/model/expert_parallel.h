// The routed experts of a layer over the ranks of a group (spec/model.md 2.6, spec/decoding.md 7.2;
// report.md 9.11): every rank calls Mix for every layer of every step, with its own rows or none.
// A row travels once to each rank that has one of its experts, as the codes and scales that it is
// quantised to already; each result comes back as the bf16 that the expert gives; the sum is made
// at home, in fp32, in the order of the row's slots. So neither the number of ranks, nor where
// experts lie, nor which replica is taken, changes a bit.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "kernels/exchange.h"
#include "kernels/ops.h"
#include "model/device_experts.h"
#include "model/routed_experts.h"
#include "parallel/dispatch.h"
#include "parallel/placement.h"
#include "parallel/statistics.h"

namespace thalweg::model {

class ExpertParallel {
 public:
  // The group outlives this. The placement covers the layers [0, placement.layers.size()) of the
  // model, for as many ranks as the group has; the layers of drafts, whose experts are few, lie on
  // every rank. Errors: a placement that is not whole or for another number of ranks.
  // devices: the same ranks where each is a device of its own, whose memory messages then travel
  // from and to; null: rows of a device go through host memory. It outlives this, too.
  // exchange, routed: how devices pack such rows; null: as kernels/exchange.h and
  // routed_exchange.h know of the backend.
  static Result<std::unique_ptr<ExpertParallel>> Make(
      comm::Communicator* group, parallel::Placement placement,
      comm::Communicator* devices = nullptr, const kernels::ExchangeOps* exchange = nullptr,
      const kernels::RoutedExchange* routed = nullptr);

  // The layer from which on a step may have other rows than before: the decoder's first. Ranks
  // agree on rows there and in layer 0. The same on all ranks, before the first step.
  void SetCut(int layer) { cut_layer_ = layer; }

  bool Covers(int layer) const { return layer < static_cast<int>(tables_.size()); }
  // Whether this rank computes the expert of a covered layer.
  bool Holds(int layer, int64_t expert) const;

  // Whether steps of few rows may go without the host (RoutedExperts); as they do unless told. The
  // same on all ranks, before the first step.
  void SetQueued(bool queued) { routed_.Allow(queued); }
  // Whether ranks agree on steps before they begin: where they are devices.
  bool Agrees(const kernels::Ops& ops) const { return routed_.Can(ops); }
  // What a rank has of a step, and what it could do.
  struct StepOffer {
    int64_t rows = 0, most_rows = 0;
    int64_t tokens = 0;                 // of the longest context
    int64_t logits = 0, no_logits = 0;  // rows with, without
    bool few = false;                   // all go through every layer
    bool records = false;               // its device may record what it runs
    bool draft_context = false;
  };
  // What all ranks do then. The host is in no layer where they route; in a recording all have
  // `rows` rows, and one of the two kinds of logits.
  struct StepTerms {
    bool routes = false, records = false;
    int64_t rows = 0;  // the most of a rank, filled up for a recording
    int64_t tokens = 0;
    bool logits = false, draft_context = false;
  };
  // All ranks call it before each step, or idle step. After an error, which status() returns, there
  // are no terms.
  StepTerms AgreeOnStep(const StepOffer& own);
  // Of a step that routes, before its first layer and in recordings too: (list) how many rows of
  // this rank are no padding.
  void SetLive(const int32_t* live) { routed_.SetLive(live); }
  // Whether it is the first of its kind (RoutedExperts::SetSettles).
  void SetSettles(bool settles) { routed_.SetSettles(settles); }
  // Returns when done() says that the device has done such a step, or with an error: then DropStep,
  // when there are no recordings any more.
  Status AwaitStep(const std::function<bool()>& done);
  void DropStep() { devices_->DropQueued(); }

  // In place of ops.experts(params): params.experts are all of the layer's; those that lie on other
  // ranks are not read. Rows of a device travel from device to device, or through host memory, and
  // are waited for. After an error of the group, which status() returns, what it writes means
  // nothing, and it asks nobody any more.
  void Mix(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& params);
  // ok, or the first error.
  const Status& status() const { return status_; }

  // Other places for the same experts, between two steps, on all ranks; and for those of one layer.
  Status Switch(parallel::Placement placement);
  Status SwitchLayer(int layer, std::vector<int32_t> slots);
  const parallel::Placement& placement() const { return placement_; }

  // Rows of this rank by layer and expert, and what was sent, since the beginning or Forget.
  const parallel::ExpertCounts& counts() {
    routed_.TakeCounts(&counts_);
    return counts_;
  }
  const parallel::EpBytes& bytes() const { return bytes_; }
  // Sent beside them: by what messages of fixed capacity are longer than their rows, and all of
  // steps that route, whose rows the host does not know.
  int64_t padding_bytes() const { return padding_bytes_; }
  void Forget();

 private:
  ExpertParallel(comm::Communicator* group, comm::Communicator* devices,
                 const kernels::ExchangeOps* exchange, const kernels::RoutedExchange* routed,
                 parallel::Placement placement);
  void MakeTables();
  void Count(int layer, const kernels::ExpertsParams& params, const parallel::DispatchPlan& plan);
  // Where rows go; ranks know of how many then.
  Result<parallel::DispatchPlan> PlanRows(int layer, const kernels::ExpertsParams& params);
  Status Exchange(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& params);
  // device_exchange.cc: the same where rows stay on devices.
  const kernels::ExchangeOps& Packing(const kernels::Ops& ops) const;
  Status ExchangeThere(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& params);
  Status MixRouted(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& params);
  Status SendChoices(const parallel::DispatchPlan& plan, const kernels::ExpertsParams& host);
  Status SendRowsThere(int layer, const parallel::DispatchPlan& plan, const kernels::Ops& ops,
                       const kernels::ExpertsParams& params);
  void RunReceivedThere(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& params);
  Status ReturnThere(const parallel::DispatchPlan& plan, const kernels::Ops& ops,
                     const kernels::ExpertsParams& params);
  std::vector<kernels::FeedForward> Local(int layer, const kernels::ExpertsParams& params) const;
  Status AgreeOnRows(int64_t rows);
  Status SendCounts(int layer, const std::vector<parallel::DispatchCounts>& counts);
  void WriteRows(const parallel::DispatchPlan& plan, const kernels::ExpertsParams& params,
                 const std::vector<int64_t>& bytes);
  Status SendRows(int layer, const parallel::DispatchPlan& plan, const kernels::Ops& ops,
                  const kernels::ExpertsParams& params);
  Status ReadRows(int64_t row_bytes);
  Status ReadFixedRows(int64_t row_bytes);
  // Experts of a call whose rows are in host memory, wherever the weights are.
  void RunOn(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& params);
  // The shared expert alone: shared_ [rows, hidden].
  void RunShared(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& params);
  void RunReceived(int layer, const kernels::Ops& ops, const kernels::ExpertsParams& params);
  Status ReturnResults(const parallel::DispatchPlan& plan, int64_t hidden);
  void Combine(const parallel::DispatchPlan& plan, const kernels::ExpertsParams& params);

  comm::Communicator* group_;
  comm::Communicator* devices_;
  const kernels::ExchangeOps* exchange_;
  parallel::Placement placement_;
  std::vector<parallel::ReplicaTable> tables_;  // [layers]
  parallel::ExpertCounts counts_;
  parallel::EpBytes bytes_;
  int64_t padding_bytes_ = 0;
  Status status_;

  // Agreed on by all ranks, until they do so anew.
  int cut_layer_ = 0;
  int64_t most_rows_ = 0;  // of a rank
  int64_t capacity_ = 0;   // rows that messages have room for; 0: they are as long as they must be

  // Of the layer under way.
  std::vector<parallel::DispatchCounts> in_counts_;  // [ranks]
  std::vector<std::byte> payload_, sent_, received_;
  std::vector<int32_t> all_rows_;  // 0, 1, 2, ...
  parallel::ReceivedRows rows_;
  std::vector<tensor::BF16> x_, results_, returned_, shared_;
  DeviceExperts device_;
  RoutedExperts routed_;
};

}  // namespace thalweg::model
