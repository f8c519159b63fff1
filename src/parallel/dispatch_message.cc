// Rows of one rank for another, as bytes.
#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "parallel/dispatch.h"

namespace thalweg::parallel {
namespace {

// Bytes one behind the other.
class Cursor {
 public:
  explicit Cursor(std::byte* at) : at_(at) {}
  template <typename T>
  void Put(const T& value) {
    Put(&value, sizeof(T));
  }
  void Put(const void* from, size_t bytes) {
    std::memcpy(at_, from, bytes);
    at_ += bytes;
  }
  const std::byte* at() const { return at_; }

 private:
  std::byte* at_;
};

template <typename T>
T Read(const std::byte* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

struct Layout {
  const std::byte* rows;
  const std::byte* entries_of_row;
  const std::byte* slots;
  const std::byte* weights;

  Layout(const std::byte* message, DispatchCounts counts, int64_t row_bytes)
      : rows(message),
        entries_of_row(rows + counts.rows * row_bytes),
        slots(entries_of_row + counts.rows),
        weights(slots + counts.entries * static_cast<int64_t>(sizeof(uint16_t))) {}
};

Status ReadEntries(const Layout& layout, size_t begin, size_t count, int32_t row,
                   int64_t slots_per_rank, ReceivedRows* received) {
  for (size_t i = begin; i < begin + count; ++i) {
    const auto slot = Read<uint16_t>(layout.slots, i);
    if (slot >= slots_per_rank)
      return base::Internal(fmt::format("a row for slot {} of {}", slot, slots_per_rank));
    received->pairs.push_back({row, slot, Read<float>(layout.weights, i)});
  }
  return {};
}

}  // namespace

int64_t MessageBytes(DispatchCounts counts, int64_t row_bytes) {
  return counts.rows * (row_bytes + 1) +
         counts.entries * static_cast<int64_t>(sizeof(uint16_t) + sizeof(float));
}

int64_t FixedMessageBytes(int64_t rows, int64_t topk, int64_t row_bytes) {
  const DispatchCounts most{static_cast<int32_t>(rows), static_cast<int32_t>(rows * topk)};
  return static_cast<int64_t>(sizeof(DispatchCounts)) + MessageBytes(most, row_bytes);
}

void WriteMessage(const DispatchPlan& plan, int rank, std::span<const std::byte> payload,
                  int64_t row_bytes, std::span<const float> weights, int64_t topk,
                  std::span<std::byte> message) {
  TW_CHECK_GE(static_cast<int64_t>(message.size()),
              MessageBytes({static_cast<int32_t>(plan.RowsTo(rank)),
                            static_cast<int32_t>(plan.EntriesTo(rank))},
                           row_bytes));
  Cursor cursor(message.data());
  const auto begin = static_cast<size_t>(plan.row_begin[static_cast<size_t>(rank)]);
  const auto end = static_cast<size_t>(plan.row_begin[static_cast<size_t>(rank) + 1]);
  for (size_t i = begin; i < end; ++i)
    cursor.Put(payload.data() + plan.rows[i] * row_bytes, static_cast<size_t>(row_bytes));
  for (size_t i = begin; i < end; ++i)
    cursor.Put(static_cast<uint8_t>(plan.entry_begin[i + 1] - plan.entry_begin[i]));
  const auto first = static_cast<size_t>(plan.entry_begin[begin]);
  const auto last = static_cast<size_t>(plan.entry_begin[end]);
  for (size_t e = first; e < last; ++e)
    cursor.Put(static_cast<uint16_t>(plan.entries[e].local_slot));
  for (size_t i = begin; i < end; ++i)
    for (auto e = static_cast<size_t>(plan.entry_begin[i]);
         e < static_cast<size_t>(plan.entry_begin[i + 1]); ++e)
      cursor.Put(weights[static_cast<size_t>(plan.rows[i] * topk + plan.entries[e].choice)]);
}

void WriteFixedMessage(const DispatchPlan& plan, int rank, std::span<const std::byte> payload,
                       int64_t row_bytes, std::span<const float> weights, int64_t topk,
                       std::span<std::byte> message) {
  const DispatchCounts counts{static_cast<int32_t>(plan.RowsTo(rank)),
                              static_cast<int32_t>(plan.EntriesTo(rank))};
  Cursor(message.data()).Put(counts);
  WriteMessage(plan, rank, payload, row_bytes, weights, topk, message.subspan(sizeof(counts)));
}

Status ReadMessage(std::span<const std::byte> message, DispatchCounts counts, int64_t row_bytes,
                   int64_t slots_per_rank, ReceivedRows* received) {
  if (counts.rows < 0 || counts.entries < 0 ||
      MessageBytes(counts, row_bytes) > static_cast<int64_t>(message.size()))
    return base::Internal(fmt::format("{} rows with {} experts in {} bytes", counts.rows,
                                      counts.entries, message.size()));
  if (received->pair_begin.empty()) received->pair_begin.push_back(0);
  const Layout layout(message.data(), counts, row_bytes);
  size_t entry = 0;
  for (int32_t i = 0; i < counts.rows; ++i) {
    const auto count = Read<uint8_t>(layout.entries_of_row, static_cast<size_t>(i));
    if (entry + count > static_cast<size_t>(counts.entries))
      return base::Internal("rows have more experts than were counted");
    const auto row = static_cast<int32_t>(received->payload.size());
    received->payload.push_back(layout.rows + i * row_bytes);
    TW_TRY(ReadEntries(layout, entry, count, row, slots_per_rank, received));
    entry += count;
  }
  if (entry != static_cast<size_t>(counts.entries))
    return base::Internal("rows have fewer experts than were counted");
  received->pair_begin.push_back(static_cast<int32_t>(received->pairs.size()));
  return {};
}

Status ReadFixedMessage(std::span<const std::byte> message, int64_t row_bytes,
                        int64_t slots_per_rank, ReceivedRows* received) {
  if (message.size() < sizeof(DispatchCounts)) return base::Internal("a message without counts");
  const auto counts = Read<DispatchCounts>(message.data(), 0);
  return ReadMessage(message.subspan(sizeof(counts)), counts, row_bytes, slots_per_rank, received);
}

}  // namespace thalweg::parallel
