#include "grammar/earley_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace thalweg::grammar {
namespace {

// Rows made between two looks at the clock.
constexpr int64_t kRowsPerCheck = 256;

}  // namespace

Rows::Rows(const Program& program, Terminals* terminals, const Limits& limits)
    : program_(program), terminals_(*terminals), limits_(limits), predictor_(program) {
  StartWork();
  Begin();
  Advance({program_.start(), kNothing, kTop, 0});
  start_ = Finish();
  if (start_ >= 0) Pin(start_);
}

void Rows::StartWork() {
  failure_ = {};
  out_of_bytes_ = false;
  terminals_.StartWork();
  deadline_ =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                             std::chrono::duration<double>(limits_.mask_seconds));
}

int64_t Rows::bytes() const {
  return pool_->bytes() + static_cast<int64_t>(rows_.bytes()) +
         static_cast<int64_t>(index_.size() * sizeof(Slot)) + terminals_.bytes();
}

int32_t Rows::Fail(Status failure) {
  if (failure_.ok()) failure_ = std::move(failure);
  return kFailed;
}

// Whether there is room and time for more rows.
bool Rows::Check() {
  if (bytes() > limits_.state_bytes) {
    out_of_bytes_ = true;
    Fail(base::ResourceExhausted(fmt::format(
        "the states of the constraint need more than {} bytes (state_bytes): use a simpler "
        "constraint or a higher limit",
        limits_.state_bytes)));
  } else if (std::chrono::steady_clock::now() > deadline_) {
    Fail(base::ResourceExhausted(
        fmt::format("one step of the constraint takes longer than {} s (mask_seconds): use a "
                    "simpler constraint or a higher limit",
                    limits_.mask_seconds)));
  }
  return failure_.ok();
}

// The slot of the row, or the empty one where it would be.
Rows::Slot* Rows::Find(std::span<const Item> items, bool accepts, uint64_t hash) {
  const size_t mask = index_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = index_[at];
    if (slot.row < 0) return &slot;
    if (slot.hash != static_cast<uint32_t>(hash)) continue;
    const Row& row = At(slot.row);
    if (row.accepts == accepts && std::ranges::equal(row.items, items)) return &slot;
  }
}

int32_t Rows::Intern(std::span<const Item> items, bool accepts) {
  const uint64_t hash = HashOf(items) * 2 + (accepts ? 1 : 0);
  Slot* slot = Find(items, accepts, hash);
  if (slot->row >= 0) return slot->row;
  if ((live_rows_ + 1) % kRowsPerCheck == 0 && !Check()) return kFailed;
  const int32_t row = NewRow(items, accepts, hash);
  *slot = {static_cast<uint32_t>(hash), row};
  if (static_cast<size_t>(live_rows_) * 2 > index_.size()) GrowIndex();
  return row;
}

int32_t Rows::NewRow(std::span<const Item> items, bool accepts, uint64_t hash) {
  ++live_rows_;
  int32_t row = static_cast<int32_t>(rows_.size());
  if (free_.empty()) {
    rows_.Add();
  } else {
    row = free_.back();
    free_.pop_back();
  }
  At(row) = {.items = pool_->Copy(items), .hash = static_cast<uint32_t>(hash), .accepts = accepts};
  return row;
}

// Where no equal row is known.
void Rows::Place(const Slot& placed) {
  const size_t mask = index_.size() - 1;
  size_t at = placed.hash & mask;
  while (index_[at].row >= 0) at = (at + 1) & mask;
  index_[at] = placed;
}

void Rows::GrowIndex() {
  std::vector<Slot> old(index_.size() * 2);
  std::swap(old, index_);
  for (const Slot& slot : old) {
    if (slot.row >= 0) Place(slot);
  }
}

Rows::Table* Rows::MakeTable(int32_t row) {
  const Closure* closure = ClosureOf(row);
  if (closure == nullptr) return nullptr;
  const Partition* partition = terminals_.Product(closure->automata);
  const auto classes = static_cast<size_t>(partition->count);
  auto* table =
      static_cast<Table*>(pool_->Allocate(offsetof(Table, next) + classes * sizeof(int32_t)));
  table->partition = partition;
  table->row = row;
  for (size_t c = 0; c < classes; ++c) {
    table->next[c] = closure->live.Has(partition->representative[c]) ? kUnknown : kDead;
  }
  return At(row).table = table;
}

int32_t Rows::Compute(Table* table, uint8_t byte) {
  Begin();
  const Closure& closure = *At(table->row).closure;
  for (size_t i = 0; i < closure.terminals.size(); ++i) {
    if (!closure.automata[i]->live.Has(byte)) continue;
    const Item& item = closure.terminals[i];
    Step({item.position, closure.automata[i]->Next(byte), item.origin, item.rule});
  }
  const int32_t row = Finish();
  if (row != kFailed) table->next[table->partition->class_of[byte]] = row;
  return row;
}

int32_t Rows::Next(int32_t row, uint8_t byte) {
  Table* table = TableOf(row);
  return table == nullptr ? kFailed : Next(table, byte);
}

int32_t Rows::NextByToken(int32_t row, int32_t token) {
  const Closure* closure = ClosureOf(row);
  if (closure == nullptr) return kFailed;
  Begin();
  for (const Item& item : closure->tokens) {
    if (program_.at(item.position).id != token) continue;
    Advance({item.position + 1, kNothing, item.origin, item.rule});
  }
  return Finish();
}

int32_t Rows::Union(int32_t a, int32_t b) {
  if (a == kFailed || b == kFailed) return kFailed;
  if (a == kDead || b == kDead || a == b) return std::max(a, b);
  Begin();
  items_.insert(items_.end(), At(a).items.begin(), At(a).items.end());
  items_.insert(items_.end(), At(b).items.begin(), At(b).items.end());
  accepts_ = At(a).accepts || At(b).accepts;
  return Finish();
}

void Rows::MarkFrom(int32_t row) {
  if (row < 0 || At(row).marked) return;
  At(row).marked = true;
  marks_.push_back(row);
}

void Rows::Mark() {
  for (size_t row = 0; row < rows_.size(); ++row) {
    rows_[row].marked = false;
  }
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].pins > 0) MarkFrom(static_cast<int32_t>(row));
  }
  while (!marks_.empty()) {
    const int32_t row = marks_.back();
    marks_.pop_back();
    for (const Item& item : At(row).items) MarkFrom(item.origin);
  }
}

void Rows::Collect(std::vector<int32_t>* freed) {
  Mark();
  auto pool = std::make_unique<BytePool>();
  for (size_t index = 0; index < rows_.size(); ++index) {
    Row& row = rows_[index];
    if (row.free) continue;
    if (row.marked) {
      row = {.items = pool->Copy(row.items),
             .hash = row.hash,
             .pins = row.pins,
             .accepts = row.accepts};
      continue;
    }
    row = {};
    row.free = true;
    freed->push_back(static_cast<int32_t>(index));
    free_.push_back(static_cast<int32_t>(index));
    --live_rows_;
  }
  pool_ = std::move(pool);
  size_t slots = 1024;
  while (static_cast<size_t>(live_rows_) * 4 > slots) slots *= 2;
  index_.assign(slots, {});
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (!rows_[row].free) Place({rows_[row].hash, static_cast<int32_t>(row)});
  }
}

}  // namespace thalweg::grammar
