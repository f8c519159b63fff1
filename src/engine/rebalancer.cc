#include "engine/rebalancer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/mapped_file.h"

namespace thalweg::engine {
namespace {

using exec::PlacementOrder;

constexpr int64_t kWindows = 4;  // whose sum is looked at
constexpr int64_t kLeastBytes = 64 << 10;
constexpr int64_t kFirstBytes = 256 << 10;  // before anything is known about speeds
constexpr int64_t kMostBytes = 64 << 20;
constexpr size_t kPieces = 9;        // of which the median is taken
constexpr size_t kSteps = 128;       // likewise
constexpr size_t kFewestSteps = 16;  // with so many rows, for a median that says something

double Seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// One layer of a placement or of counts.
parallel::Placement LayerOf(const parallel::Placement& all, size_t layer) {
  return {all.shape, {all.layers[layer]}};
}
parallel::ExpertCounts LayerOf(const parallel::ExpertCounts& all, size_t layer) {
  return {all.experts, all.rows, {all.layers[layer]}};
}

}  // namespace

Rebalancer::Rebalancer(comm::Communicator* group, ExpertPlaces places, RebalanceOptions options)
    : group_(group),
      places_(std::move(places)),
      options_(std::move(options)),
      window_(static_cast<int64_t>(places_.placement().layers.size()),
              places_.placement().shape.experts, kWindows),
      total_(window_.total()),
      next_layer_(static_cast<int>(places_.placement().layers.size())) {}

Status Rebalancer::Before(const step::StepPlan& plan) {
  began_ = Clock::now();
  number_ = plan.number;
  step_rows_ = plan.RowCount();
  rows_ += step_rows_;
  worked_ = false;
  if (options_.window_rows == 0) return {};
  TW_TRY(Work());
  if (!worked_) return {};
  const std::scoped_lock lock(mutex_);
  ++metrics_.worked_steps;
  metrics_.worked_seconds += Seconds(Clock::now() - began_);
  return {};
}

// At most one thing before a step.
Status Rebalancer::Work() {
  const auto layers = static_cast<int>(places_.placement().layers.size());
  if (places_.moves() == nullptr) return {};
  worked_ = true;
  if (places_.moves()->busy()) return Advance();
  if (next_layer_ < layers) return PlanLayer();
  if (rows_ >= options_.window_rows) return LookAtWindow();
  worked_ = false;
  return {};
}

Status Rebalancer::Order(const PlacementOrder& order) {
  const std::vector<std::string> bodies(static_cast<size_t>(group_->size()),
                                        exec::EncodePlacementOrder(order));
  TW_TRY(exec::SendOrders(group_, exec::Order::kPlacement, bodies));
  return places_.Do(order);
}

Status Rebalancer::LookAtWindow() {
  TW_TRY(Order({.kind = PlacementOrder::Kind::kCount}));
  rows_ = 0;
  window_.Add(places_.counted());
  total_.Add(places_.counted());
  next_layer_ = 0;
  const double imbalance = Mean(ImbalanceByLayer(places_.placement(), window_.total()));
  const std::scoped_lock lock(mutex_);
  ++metrics_.windows;
  metrics_.imbalance = imbalance;
  return {};
}

Status Rebalancer::PlanLayer() {
  const int layer = next_layer_++;
  const parallel::Placement old = LayerOf(places_.placement(), static_cast<size_t>(layer));
  const parallel::ExpertCounts counts = LayerOf(window_.total(), static_cast<size_t>(layer));
  TW_ASSIGN(const parallel::RebalancePlan plan,
            parallel::PlanRebalance({old.shape}, old, counts, options_.rules));
  if (plan.changed.empty()) return {};
  expected_gain_[0] = ImbalanceByLayer(old, counts).front();
  expected_gain_[1] = ImbalanceByLayer(plan.placement, counts).front();
  return Order({.kind = PlacementOrder::Kind::kBegin,
                .layer = layer,
                .slots = plan.placement.layers.front()});
}

// So much that moving it takes a small part of a step.
int64_t Rebalancer::NextBytes() const {
  if (options_.step_bytes > 0) return options_.step_bytes;
  const double step = MedianSeconds(step_rows_);
  if (byte_seconds_.empty() || step <= 0) return kFirstBytes;
  const double of_a_byte = MedianOf({byte_seconds_.begin(), byte_seconds_.end()});
  const double bytes = options_.most_share * step / of_a_byte;
  return std::clamp(static_cast<int64_t>(bytes), kLeastBytes, kMostBytes);
}

Status Rebalancer::Advance() {
  const int64_t transfers = places_.moves()->transfers();
  const Clock::time_point began = Clock::now();
  TW_TRY(Order({.kind = PlacementOrder::Kind::kAdvance, .bytes = NextBytes()}));
  NoteMove(places_.moves()->advanced_bytes(), Seconds(Clock::now() - began));
  if (places_.moves()->busy()) return {};
  spdlog::info(
      "experts of layer {} lie anew from step {} on: {} came to another rank, the busiest rank has "
      "{:.2f} times the mean instead of {:.2f}",
      next_layer_ - 1, number_, transfers, expected_gain_[1], expected_gain_[0]);
  const std::scoped_lock lock(mutex_);
  ++metrics_.layers_switched;
  metrics_.experts_moved += static_cast<uint64_t>(transfers);
  metrics_.bytes_moved += static_cast<uint64_t>(transfers * places_.moves()->expert_bytes());
  metrics_.last_step = number_;
  return {};
}

// Of steps with so many rows; 0: there were too few.
double Rebalancer::MedianSeconds(int64_t rows) const {
  std::vector<double> seconds;
  for (const Step& step : steps_)
    if (step.rows == rows) seconds.push_back(step.seconds);
  if (seconds.size() < kFewestSteps) return 0;
  return MedianOf(std::move(seconds));
}

// Short pieces are all latency; the median does not heed one that the machine disturbed.
void Rebalancer::NoteMove(int64_t bytes, double seconds) {
  if (bytes < kLeastBytes) return;
  byte_seconds_.push_back(seconds / static_cast<double>(bytes));
  if (byte_seconds_.size() > kPieces) byte_seconds_.pop_front();
}

void Rebalancer::NoteStep(const Step& step) {
  const double median = MedianSeconds(step.rows);
  if (median > 0) longest_other_ = std::max(longest_other_, step.seconds / median);
  steps_.push_back(step);
  if (steps_.size() > kSteps) steps_.pop_front();
}

void Rebalancer::After() {
  const Step step{step_rows_, Seconds(Clock::now() - began_)};
  if (!worked_) return NoteStep(step);
  const double median = MedianSeconds(step.rows);
  if (median <= 0) return;
  const std::scoped_lock lock(mutex_);
  metrics_.longest_step = std::max(metrics_.longest_step, step.seconds / median);
}

void Rebalancer::End() {
  if (metrics_.layers_switched > 0)
    spdlog::info(
        "the longest step that experts moved before took {:.2f} of the median, of all others "
        "{:.2f}",
        metrics_.longest_step, longest_other_);
  SaveCounts();
}

void Rebalancer::SaveCounts() {
  if (options_.counts.empty()) return;
  if (Order({.kind = PlacementOrder::Kind::kCount}).ok()) total_.Add(places_.counted());
  const Status written = base::WriteFile(options_.counts, parallel::ToJson(total_));
  if (!written.ok()) spdlog::error("the counts of experts are not saved: {}", written.message());
}

ExpertMetrics Rebalancer::metrics() const {
  const std::scoped_lock lock(mutex_);
  return metrics_;
}

}  // namespace thalweg::engine
