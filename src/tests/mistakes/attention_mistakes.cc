// Mistakes in attention and in what it attends to.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/reference/bodies.h"
#include "kernels/reference/elementary.h"
#include "tests/mistakes/mistakes.h"

namespace thalweg::tests {
namespace {

namespace reference = kernels::reference;

void AttendWithoutSink(const kernels::AttentionParams& p) {
  const std::vector<float> sink(static_cast<size_t>(p.heads),
                                -std::numeric_limits<float>::infinity());
  kernels::AttentionParams wrong = p;
  wrong.sink = sink.data();
  reference::Attention(wrong);
}

// Undoes the inverse rotation of the output.
void AttendWithoutInverse(const kernels::AttentionParams& p) {
  reference::Attention(p);
  const int64_t half = p.rotation.rope_dim / 2;
  for (int64_t i = 0; i < p.rows * p.heads; ++i) {
    const int64_t row = i / p.heads;
    reference::Rotate(p.out + i * p.width, p.width, p.rotation.cos + row * half,
                      p.rotation.sin + row * half, p.rotation.rope_dim, false);
  }
}

void AttendShortWindow(const kernels::AttentionParams& p) {
  kernels::AttentionParams wrong = p;
  wrong.window = p.window - 1;
  reference::Attention(wrong);
}

// Entries that each row of the newest selection may see, for an attention that ignores what was
// selected.
std::vector<int64_t> g_visible;

void SelectAndNote(const kernels::IndexSelectParams& p) {
  reference::IndexSelect(p);
  g_visible.assign(p.visible, p.visible + p.rows);
}

void AttendToEverything(const kernels::AttentionParams& p) {
  // A draft block selects among its own rows, which are window rows.
  const bool compressed =
      p.selected_rows != nullptr && p.selected_rows[0].format != p.window_format;
  if (!compressed) return reference::Attention(p);
  const int64_t most = std::max<int64_t>(1, *std::max_element(g_visible.begin(), g_visible.end()));
  std::vector<int32_t> all(static_cast<size_t>(p.rows * most), -1);
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t g = 0; g < g_visible[static_cast<size_t>(r)]; ++g)
      all[static_cast<size_t>(r * most + g)] = static_cast<int32_t>(g);
  }
  kernels::AttentionParams wrong = p;
  wrong.selection = all.data();
  wrong.topk = most;
  reference::Attention(wrong);
}

void SelectOutsideCandidates(const kernels::IndexSelectParams& p) {
  kernels::IndexSelectParams wrong = p;
  wrong.restrict_to = nullptr;
  reference::IndexSelect(wrong);
}

void SelectOneLess(const kernels::IndexSelectParams& p) {
  kernels::IndexSelectParams wrong = p;
  wrong.topk = p.topk - 1;
  std::vector<int32_t> selection(static_cast<size_t>(p.rows * wrong.topk));
  wrong.selection = selection.data();
  reference::IndexSelect(wrong);
  for (int64_t r = 0; r < p.rows; ++r) {
    std::copy_n(selection.data() + r * wrong.topk, wrong.topk, p.selection + r * p.topk);
    p.selection[(r + 1) * p.topk - 1] = -1;
  }
}

}  // namespace

void IgnoreSink(kernels::Ops* ops) { ops->attention = AttendWithoutSink; }
void SkipInverseRope(kernels::Ops* ops) { ops->attention = AttendWithoutInverse; }
void ShortenWindow(kernels::Ops* ops) { ops->attention = AttendShortWindow; }
void IgnoreIndexer(kernels::Ops* ops) {
  ops->index_select = SelectAndNote;
  ops->attention = AttendToEverything;
}
void IgnoreCandidates(kernels::Ops* ops) { ops->index_select = SelectOutsideCandidates; }
void ShortenTopk(kernels::Ops* ops) { ops->index_select = SelectOneLess; }

}  // namespace thalweg::tests
