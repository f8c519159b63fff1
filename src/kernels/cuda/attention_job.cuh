// A call of attention as its kernels read it.
#pragma once

#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/pages.cuh"

namespace thalweg::kernels::cuda {

inline constexpr float kFirstMaximum = -1e30f;  // of the online softmax

struct AttentionJob {
  AttentionParams p;  // its lists on the device
  DeviceRotation rotation;
  int64_t window_bytes = 0;  // of a window row
  RowFormat selected_format = RowFormat::kBF16;
  int64_t selected_bytes = 0;  // of a selected row
};

// The window key in a slot, from the oldest position upwards; null where it is masked.
__device__ inline const uint8_t* FindWindowRow(const AttentionJob& job, const WindowKeys& keys,
                                               int64_t end, int64_t slot) {
  const int64_t position = max(static_cast<int64_t>(0), end - job.p.window + 1) + slot;
  if (position > end || position < keys.floor) return nullptr;
  if (position >= keys.chunk_begin) {
    return keys.chunk + (position - keys.chunk_begin) * job.window_bytes;
  }
  const auto at = static_cast<uint32_t>(position) % static_cast<uint32_t>(keys.ring_rows);
  return keys.ring + at * job.window_bytes;
}

// The row in a slot, null where it is masked: the window first, then the selection.
__device__ inline const uint8_t* FindRow(const AttentionJob& job, int64_t row, int64_t slot) {
  const AttentionParams& p = job.p;
  const int32_t sequence = p.row_sequence[row];
  if (slot < p.window) {
    return FindWindowRow(job, p.window_keys[sequence], p.window_end[row], slot);
  }
  const int64_t i = slot - p.window;
  if (p.selected_rows == nullptr || i >= p.topk) return nullptr;
  const int32_t entry = p.selection[row * p.topk + i];
  return entry < 0 ? nullptr : RowAt(p.selected_rows[sequence], entry);
}

inline AttentionJob StageJob(const AttentionParams& p, Queue* queue) {
  AttentionJob job{p, StageRotation(queue, p.rotation, p.rows),
                   tensor::RowBytes(p.window_format, p.width)};
  const int32_t* row_sequence = queue->OnHost(p.row_sequence);
  const int64_t sequences = SequencesOf(row_sequence, p.rows);
  job.p.row_sequence = queue->Stage(p.row_sequence, p.rows);
  job.p.window_end = queue->Stage(p.window_end, p.rows);
  job.p.window_keys = queue->Stage(p.window_keys, sequences);
  if (p.selected_rows != nullptr) {
    job.p.selected_rows = StagePages(queue, p.selected_rows, sequences);
    // Of all sequences.
    job.selected_format = queue->OnHost(p.selected_rows)[row_sequence[0]].format;
    job.selected_bytes = tensor::RowBytes(job.selected_format, p.width);
  }
  return job;
}

}  // namespace thalweg::kernels::cuda
