#include "tests/invariance/count_allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> g_allocations = 0;

void* Counted(size_t bytes, size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Counted(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace thalweg::tests {

int64_t Allocations() { return g_allocations.load(std::memory_order_relaxed); }

}  // namespace thalweg::tests
