#include "tests/model/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace thalweg::tests {
namespace {

using kvpool::Geometry;
using kvpool::Pool;
using kvpool::SequenceId;

void Append(const void* data, int64_t bytes, std::vector<uint8_t>* out) {
  const auto* first = static_cast<const uint8_t*>(data);
  out->insert(out->end(), first, first + bytes);
}

void AddRows(Pool* pool, SequenceId id, Snapshot* out) {
  const Geometry& g = pool->geometry();
  for (size_t o = 0; o < g.owners.size(); ++o) {
    const int owner = static_cast<int>(o);
    SnapshotPart main{fmt::format("main rows of owner {}", o), {}};
    SnapshotPart index{fmt::format("index rows of owner {}", o), {}};
    for (int64_t row = 0; row < pool->length(id) / g.owners[o].ratio; ++row) {
      Append(pool->MainRows(id, owner).Row(row), g.MainRowBytes(g.owners[o]), &main.bytes);
      Append(pool->IndexRows(id, owner).Row(row), g.IndexRowBytes(g.owners[o]), &index.bytes);
    }
    out->push_back(std::move(main));
    out->push_back(std::move(index));
  }
}

void AddRings(Pool* pool, SequenceId id, int64_t from, Snapshot* out) {
  const Geometry& g = pool->geometry();
  for (int64_t layer = 0; layer < g.window_layers; ++layer) {
    for (int64_t p = std::max<int64_t>(0, from); p < pool->length(id); ++p) {
      SnapshotPart part{fmt::format("window {} position {}", layer, p), {}};
      const uint8_t* slot = pool->Ring(id, layer) + p % g.RingRows() * g.WindowRowBytes();
      Append(slot, g.WindowRowBytes(), &part.bytes);
      out->push_back(std::move(part));
    }
  }
}

void AddHalfGroup(Pool* pool, SequenceId id, int owner, int64_t group, Snapshot* out) {
  const int64_t bytes = pool->geometry().owners[static_cast<size_t>(owner)].main_width *
                        static_cast<int64_t>(sizeof(float));
  const kvpool::PendingGroup half = pool->Pending(id, owner, group);
  SnapshotPart part{fmt::format("half group {} of owner {}", group, owner), {}};
  Append(half.kv, bytes, &part.bytes);
  Append(half.score, bytes, &part.bytes);
  out->push_back(std::move(part));
}

// Half groups of the odd lengths in [from, length].
void AddHalfGroups(Pool* pool, SequenceId id, int64_t from, Snapshot* out) {
  const Geometry& g = pool->geometry();
  for (size_t o = 0; o < g.owners.size(); ++o) {
    if (g.owners[o].ratio != 2) continue;
    for (int64_t length = std::max<int64_t>(0, from); length <= pool->length(id); ++length) {
      if (length % 2 == 1) AddHalfGroup(pool, id, static_cast<int>(o), length / 2, out);
    }
  }
}

void AddHistory(Pool* pool, SequenceId id, int64_t from, int64_t to, Snapshot* out) {
  for (int64_t p = std::max<int64_t>(0, from); p < to; ++p) {
    SnapshotPart part{fmt::format("history of position {}", p), {}};
    Append(&pool->History(id, p), sizeof(int32_t), &part.bytes);
    out->push_back(std::move(part));
  }
}

void AddNumber(const char* name, int64_t value, Snapshot* out) {
  SnapshotPart part{fmt::format("{} = {}", name, value), {}};
  Append(&value, sizeof(value), &part.bytes);
  out->push_back(std::move(part));
}

}  // namespace

Snapshot TakeSnapshot(Pool* pool, SequenceId id, int64_t rollback_left) {
  const Geometry& g = pool->geometry();
  const int64_t length = pool->length(id);
  Snapshot out;
  AddNumber("length", length, &out);
  AddRows(pool, id, &out);
  AddHalfGroups(pool, id, length - rollback_left, &out);
  // The row at the lowest length looks back on window - 1 rows, and on fewer tokens than the
  // history keeps.
  AddHistory(pool, id, length - rollback_left - g.history_tokens + 1, length, &out);
  AddRings(pool, id, length - rollback_left - g.window + 1, &out);
  return out;
}

Snapshot WithoutWindows(const Snapshot& snapshot, int64_t first_layer) {
  Snapshot out;
  for (const SnapshotPart& part : snapshot) {
    int64_t layer = -1;
    const bool window = std::sscanf(part.name.c_str(), "window %ld", &layer) == 1;
    if (!window || layer < first_layer) out.push_back(part);
  }
  return out;
}

Snapshot TakeRaw(Pool* pool, SequenceId id) {
  const Geometry& g = pool->geometry();
  Snapshot out;
  AddNumber("length", pool->length(id), &out);
  AddNumber("decoder floor", pool->decoder_floor(id), &out);
  AddNumber("free blocks", pool->free_blocks(), &out);
  AddRows(pool, id, &out);
  SnapshotPart rings{"rings", {}};
  Append(pool->Ring(id, 0), g.window_layers * g.RingRows() * g.WindowRowBytes(), &rings.bytes);
  out.push_back(std::move(rings));
  for (size_t o = 0; o < g.owners.size(); ++o) {
    if (g.owners[o].ratio != 2) continue;
    for (int64_t i = 0; i < g.PendingRows(); ++i)
      AddHalfGroup(pool, id, static_cast<int>(o), i, &out);
  }
  AddHistory(pool, id, 0, g.HistoryRows(), &out);
  return out;
}

std::string Difference(const Snapshot& a, const Snapshot& b) {
  if (a.size() != b.size()) return fmt::format("{} parts against {}", a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name) return fmt::format("{} against {}", a[i].name, b[i].name);
    if (a[i].bytes != b[i].bytes) return a[i].name;
  }
  return "";
}

::testing::AssertionResult SameBits(std::span<const float> expected, std::span<const float> actual,
                                    int64_t vocab) {
  if (expected.size() != actual.size()) {
    return ::testing::AssertionFailure()
           << actual.size() << " logits instead of " << expected.size();
  }
  if (expected.empty()) return ::testing::AssertionFailure() << "no logits to compare";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&expected[i], &actual[i], sizeof(float)) == 0) continue;
    return ::testing::AssertionFailure()
           << "row " << static_cast<int64_t>(i) / vocab << " of "
           << static_cast<int64_t>(expected.size()) / vocab << ", token "
           << static_cast<int64_t>(i) % vocab << ": " << actual[i] << " instead of " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

std::span<const float> LastRows(std::span<const float> logits, int64_t count, int64_t vocab) {
  return logits.last(static_cast<size_t>(count * vocab));
}

}  // namespace thalweg::tests
