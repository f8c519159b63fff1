// A checkpoint directory in the released layout (spec/model.md 3): config.json, the index, and the
// shards, memory-mapped. Every tensor is checked against the expected list before it can be used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "checkpoint/expected.h"
#include "tensor/view.h"

namespace thalweg::checkpoint {

// What to map. Shards that hold nothing of it are not opened and need not be there.
struct LoadFilter {
  // Routed experts [begin, end) of every target layer, and of every draft stage.
  int64_t expert_begin = 0;
  int64_t expert_end = std::numeric_limits<int64_t>::max();
  int64_t draft_expert_begin = 0;
  int64_t draft_expert_end = std::numeric_limits<int64_t>::max();
  bool engram = true;
  bool draft = true;
  bool vision = true;

  // Whether a tensor of the expected list passes.
  bool Wants(const ExpectedTensor& tensor) const;
};

// Tensors and bytes of one category, among those that the filter wants.
struct CategoryTotal {
  Category category = Category::kGlobal;
  int64_t tensors = 0;
  int64_t bytes = 0;
};

// Immutable, cheap to move; views stay valid as long as the object (or the one it moved to) lives.
class Checkpoint {
 public:
  // Errors: a missing or malformed config.json, index or shard; tensors that are missing, extra or
  // of another dtype or shape (one error with the first ten and the count); an Engram table whose
  // size disagrees with the primes.
  static Result<Checkpoint> Open(const std::filesystem::path& dir, const LoadFilter& filter = {});

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  ~Checkpoint();

  const Config& config() const;
  const LoadFilter& filter() const;
  const std::filesystem::path& dir() const;

  // Mapped, read-only memory, aligned to the element. dtype and shape are those of the header. A
  // name that is not expected, or that the filter left out, is a programmer error.
  tensor::View Get(std::string_view name) const;
  // The same; nothing when the name is not expected or left out.
  std::optional<tensor::View> Find(std::string_view name) const;

  // Lets the system take back the memory of everything that was read, after it was copied. Views
  // stay valid: what is read again comes from the files.
  void GiveBackPages() const;

  int64_t tensor_count() const;
  int64_t total_bytes() const;
  std::vector<CategoryTotal> inventory() const;  // in the order of Category, empty ones left out

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thalweg::checkpoint
