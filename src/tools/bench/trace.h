// Where the time of a forward goes: an op table whose entries run those of a backend and note how
// long each took, in which layer, and how many experts were read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "tensor/buffer.h"

namespace thalweg::tools::bench {

// One trace lives at a time: the entries of an op table are plain functions and have to find it.
class OpTrace {
 public:
  // `head_rows`: a linear with so many outputs is the head. `traced` must outlive the trace.
  OpTrace(const kernels::Ops& traced, int64_t head_rows);
  OpTrace(const OpTrace&) = delete;
  OpTrace& operator=(const OpTrace&) = delete;
  ~OpTrace();

  // The table to run a model with.
  const kernels::Ops& ops() const { return timed_; }
  enum class Mode {
    kTime,   // times ops as they return, and counts experts
    kWait,   // the same, and waits for each: where a device's time goes
    kCount,  // counts experts alone
    kOff,    // ops run as if there were no trace
  };
  // Not while an op runs. kTime in the beginning.
  void SetMode(Mode mode) { mode_ = mode; }
  // Forgets everything.
  void Clear();

  // Seconds of an op in a layer (-1: before the first, or the head), over all calls.
  using Key = std::pair<int, std::string>;
  const std::map<Key, double>& seconds() const { return seconds_; }
  double LayerSeconds(int layer) const;
  // Routed experts that the calls of a layer read, distinct ones of each call added up.
  int64_t experts_read(int layer) const;

  // For the entries of the table.
  void BeginOp(std::string_view op);
  void EndOp(std::string_view op, double seconds);
  void CountExperts(const kernels::ExpertsParams& params);
  bool IsHead(const kernels::LinearParams& params) const;
  const kernels::Ops& traced() const { return traced_; }
  // Until everything on the stream is done; its lists live on.
  void Wait(const tensor::Stream& stream);
  Mode mode() const { return mode_; }

 private:
  const kernels::Ops& traced_;
  kernels::Ops timed_;
  int64_t head_rows_;
  Mode mode_ = Mode::kTime;
  tensor::Buffer place_;  // of a device: what Wait reads
  int sites_ = 0;         // hyper-connection sites so far: two a layer
  std::map<Key, double> seconds_;
  std::map<int, int64_t> experts_;
};

}  // namespace thalweg::tools::bench
