// The states of the parser: rows of Earley items, interned, so that equal situations are one row,
// and the steps between them, each computed once (Earley 1970; Aycock and Horspool 2002 for
// nullable rules; Leo 1991 for right recursion). The language is that of bytes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "grammar/byte_pool.h"
#include "grammar/chunks.h"
#include "grammar/earley_item.h"
#include "grammar/earley_predict.h"
#include "grammar/earley_program.h"
#include "grammar/earley_terminals.h"
#include "grammar/limits.h"

namespace thalweg::grammar {

// A row is a number >= 0. A row that exists has a continuation: some text completes it. Rows that
// are not pinned, and not part of one that is, are forgotten by Collect.
//
// When a limit is reached, kFailed comes in place of a row (a null pointer in place of a table),
// failure() says why, and nothing wrong is remembered. Not thread-safe.
class Rows {
 public:
  static constexpr int32_t kDead = -1;     // no text continues
  static constexpr int32_t kUnknown = -2;  // in tables: not computed yet
  static constexpr int32_t kFailed = -3;

  // The steps from a row. Stable until Collect.
  struct Table {
    const Partition* partition;
    int32_t row;
    int32_t next[1];  // by class: as many as there are
  };
  // What may come next in a row.
  struct Closure {
    std::span<const Item> terminals;            // before a regex
    std::span<const Terminal* const> automata;  // of each of them
    std::span<const Item> tokens;               // before a token
    ByteSet live;
  };

  Rows(const Program& program, Terminals* terminals, const Limits& limits);

  int32_t start() const { return start_; }  // kFailed: beyond the limits
  bool accepts(int32_t row) const { return At(row).accepts; }
  const Closure* ClosureOf(int32_t row);
  int32_t TokenOf(const Item& item) const { return program_.at(item.position).id; }
  Table* TableOf(int32_t row) {
    Table* table = At(row).table;
    return table != nullptr ? table : MakeTable(row);
  }
  int32_t Next(Table* table, uint8_t byte) {
    const int32_t next = table->next[table->partition->class_of[byte]];
    return next != kUnknown ? next : Compute(table, byte);
  }
  int32_t Next(int32_t row, uint8_t byte);
  // After the token as a whole (Symbol::kToken).
  int32_t NextByToken(int32_t row, int32_t token);
  // Whatever continues one of them; both may be kDead.
  int32_t Union(int32_t a, int32_t b);

  void Pin(int32_t row) { ++At(row).pins; }
  void Unpin(int32_t row) { --At(row).pins; }
  // Forgets rows and steps; the numbers of pinned rows stay. Appends the numbers that are free now.
  void Collect(std::vector<int32_t>* freed);

  // Begins an operation: forgets the failure, sets the time.
  void StartWork();
  const Status& failure() const { return failure_; }
  bool out_of_bytes() const { return out_of_bytes_; }  // the failure: Collect may help
  int64_t bytes() const;
  int64_t count() const { return live_rows_; }

 private:
  struct Waiting {
    int32_t rule;
    Item item;
    auto operator<=>(const Waiting&) const = default;
  };
  using WaitingList = std::span<const Waiting>;  // sorted
  struct Row {
    std::span<const Item> items;
    uint32_t hash = 0;
    Table* table = nullptr;
    const Closure* closure = nullptr;
    const WaitingList* waiting = nullptr;
    int32_t pins = 0;
    bool accepts = false;
    bool marked = false;
    bool free = false;
  };

  Row& At(int32_t row) { return rows_[static_cast<size_t>(row)]; }
  const Row& At(int32_t row) const { return rows_[static_cast<size_t>(row)]; }
  int32_t Fail(Status failure);
  bool Check();

  int32_t Intern(std::span<const Item> items, bool accepts);
  int32_t NewRow(std::span<const Item> items, bool accepts, uint64_t hash);
  struct Slot {
    uint32_t hash = 0;
    int32_t row = -1;  // none
  };
  Slot* Find(std::span<const Item> items, bool accepts, uint64_t hash);
  void Place(const Slot& placed);
  void GrowIndex();

  Table* MakeTable(int32_t row);
  int32_t Compute(Table* table, uint8_t byte);

  void MakeClosure(int32_t row, Closure* closure);
  void Predict(std::span<const Item> items);
  int32_t Resolve(std::span<const Item> items, const Address& address);
  void Emit(int32_t position, const Address& address);
  int32_t OriginOf(std::span<const Item> items, const Reached& reached);
  WaitingList WaitingFor(int32_t row, int32_t rule);
  WaitingList MakeWaiting(std::span<const Item> items);
  void AddCalls(std::span<const Item> items, const Reached& reached);

  void Begin();
  void Advance(Item item);
  void Step(Item item);
  int32_t Finish();

  void Mark();
  void MarkFrom(int32_t row);

  const Program& program_;
  Terminals& terminals_;
  const Limits limits_;
  Predictor predictor_;
  std::unique_ptr<BytePool> pool_ = std::make_unique<BytePool>();
  Chunks<Row> rows_;
  std::vector<Slot> index_ = std::vector<Slot>(1024);  // open addressing, by hash
  std::vector<int32_t> free_;
  int64_t live_rows_ = 0;
  int32_t start_ = kFailed;

  // Of the row that is being made.
  std::vector<Item> items_;
  std::vector<Item> todo_;
  ItemSet seen_;
  bool accepts_ = false;
  // Of the closure that is being made.
  std::vector<Item> found_;
  std::vector<Item> found_tokens_;
  std::vector<const Terminal*> automata_;
  std::vector<Waiting> found_waiting_;
  std::vector<Item> subset_;
  std::vector<int32_t> marks_;

  Status failure_;
  bool out_of_bytes_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace thalweg::grammar
