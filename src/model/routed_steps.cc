// Steps that ranks agree on before they begin, and whose rows find their experts on devices.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "model/expert_parallel.h"
#include "model/idle_ops.h"
#include "model/step_graphs.h"

namespace thalweg::model {
namespace {

using StepOffer = ExpertParallel::StepOffer;
using StepTerms = ExpertParallel::StepTerms;

int64_t MostOf(const std::vector<StepOffer>& all, int64_t StepOffer::*member) {
  int64_t most = 0;
  for (const StepOffer& offer : all) most = std::max(most, offer.*member);
  return most;
}

bool All(const std::vector<StepOffer>& all, bool StepOffer::*member) {
  return std::all_of(all.begin(), all.end(), [&](const StepOffer& o) { return o.*member; });
}

// From what all ranks have said alone, so that all come to the same.
StepTerms TermsOf(const std::vector<StepOffer>& all) {
  const auto ranks = static_cast<int64_t>(all.size());
  const int64_t rows = MostOf(all, &StepOffer::rows);
  StepTerms terms{.rows = rows,
                  .tokens = FilledTokens(MostOf(all, &StepOffer::tokens)),
                  .logits = MostOf(all, &StepOffer::logits) > 0};
  terms.routes = rows > 0 && rows * ranks <= kMostRoutedRows && All(all, &StepOffer::few);
  terms.draft_context = std::any_of(all.begin(), all.end(),
                                    [](const StepOffer& offer) { return offer.draft_context; });
  int64_t least_room = kMostGraphRows;
  for (const StepOffer& offer : all) least_room = std::min(least_room, offer.most_rows);
  const int64_t filled = FilledRows(rows);
  const bool one_kind = !terms.logits || MostOf(all, &StepOffer::no_logits) == 0;
  terms.records = terms.routes && All(all, &StepOffer::records) && one_kind &&
                  filled <= least_room && filled * ranks <= kMostRoutedRows;
  if (terms.records) terms.rows = filled;
  return terms;
}

}  // namespace

StepTerms ExpertParallel::AgreeOnStep(const StepOffer& own) {
  routed_.Begin(0);
  if (!status_.ok()) return {};
  StepOffer offer = own;
  offer.records = own.records && devices_->queues();
  std::vector<StepOffer> all(static_cast<size_t>(group_->size()));
  status_ = group_->AllGather(std::as_bytes(std::span(&offer, size_t{1})),
                              std::as_writable_bytes(std::span(all)));
  if (!status_.ok()) return {};
  const StepTerms terms = TermsOf(all);
  if (!terms.routes) return terms;
  routed_.Begin(terms.rows);
  counts_.rows += own.rows;
  return terms;
}

Status ExpertParallel::AwaitStep(const std::function<bool()>& done) {
  if (!status_.ok()) return status_;
  if (!devices_->queues()) return {};
  status_ = devices_->Await(done);
  // The others wait for this rank otherwise.
  if (!status_.ok() && group_->Check().ok()) group_->Fail(status_);
  return status_;
}

// What lists are made for alone has run before.
Status ExpertParallel::MixRouted(int layer, const kernels::Ops& ops,
                                 const kernels::ExpertsParams& params) {
  if (&ops == &IdleOps()) return {};
  TW_CHECK(params.experts.size() == static_cast<size_t>(placement_.shape.experts));
  const std::vector<kernels::FeedForward> local = Local(layer, params);
  const Status status = routed_.Mix({.number = layer,
                                     .shape = &placement_.shape,
                                     .table = &tables_[static_cast<size_t>(layer)],
                                     .local = local,
                                     .layers = static_cast<int64_t>(tables_.size())},
                                    ops, params, &device_);
  const int64_t row_bytes = tensor::RowBytes(params.quantise, params.hidden);
  padding_bytes_ += (group_->size() - 1) * routed_.capacity() *
                    (row_bytes + params.topk * (8 + 2 * params.hidden));
  if (!status.ok() && group_->Check().ok()) group_->Fail(status);
  return status;
}

}  // namespace thalweg::model
