// Recordings of decode and verify steps: what a device runs is noted once for each number of rows
// and replayed with other lists. Rows are filled up to a few numbers with rows of a sequence that
// nobody reads.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "kernels/ops.h"

namespace thalweg::model {

// The most rows of a step that is recorded.
inline constexpr int64_t kMostGraphRows = 512;

// Rows of a recording for `rows` rows: 1, 2, 4, 8, multiples of 16, and of 64 above 128.
int64_t FilledRows(int64_t rows);
// Tokens of a context that a recording is made for: a power of two, at least 2048.
int64_t FilledTokens(int64_t tokens);

class StepGraphs {
 public:
  // What a recording depends on beside its lists.
  struct Key {
    int64_t rows = 0;
    int64_t tokens = 0;  // of the longest context
    bool head = false;
    bool draft_context = false;
    bool draft = false;  // a draft block for each sequence, of `rows` rows in all
    auto operator<=>(const Key&) const = default;
  };

  StepGraphs(const tensor::Memory& memory, const tensor::Stream& stream)
      : steps_(memory.steps), stream_(stream) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // Runs a step: body(false) puts its ops on the queue, body(true) makes its lists alone. The first
  // step of a key is no recording: what ops set up once is set up then.
  template <typename Body>
  void Run(const Key& key, Body body) {
    const auto known = recordings_.find(key);
    if (known != recordings_.end()) {
      body(true);
      return steps_->replay(stream_, known->second);
    }
    if (seen_.insert(key).second) return body(false);
    steps_->record(stream_);
    body(false);
    void* made = steps_->recorded(stream_);
    if (made == nullptr) return;  // an error of the queue, which the step ends with
    recordings_[key] = made;
    steps_->replay(stream_, made);
  }
  // None any more: what they held may end.
  void Clear();
  int64_t count() const { return static_cast<int64_t>(recordings_.size()); }

 private:
  const tensor::StepQueue* steps_;
  tensor::Stream stream_;
  std::set<Key> seen_;
  std::map<Key, void*> recordings_;
};

}  // namespace thalweg::model
