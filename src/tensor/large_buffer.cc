#include "tensor/large_buffer.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "base/check.h"
#include "base/machine.h"
#include "base/math.h"

namespace thalweg::tensor {
namespace {

constexpr int64_t kHugePageBytes = 2 << 20;
constexpr int kMostNodes = 1024;

// Both are advice: a system that refuses serves the memory all the same, slower.
void AdviseHugePages(void* memory, size_t bytes) {
  static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
}

void SpreadOverNodes(void* memory, size_t bytes) {
  const std::vector<int> nodes = base::MemoryNodes();
  if (nodes.size() < 2) return;
  constexpr int kBits = CHAR_BIT * sizeof(unsigned long);
  std::array<unsigned long, kMostNodes / kBits> mask = {};
  for (const int node : nodes) {
    if (node < kMostNodes) mask[static_cast<size_t>(node / kBits)] |= 1ul << (node % kBits);
  }
  static_cast<void>(syscall(SYS_mbind, memory, bytes, MPOL_INTERLEAVE, mask.data(), kMostNodes, 0));
}

}  // namespace

Result<LargeBuffer> LargeBuffer::Allocate(int64_t bytes) {
  TW_CHECK_GE(bytes, 0);
  LargeBuffer out;
  if (bytes == 0) return out;
  const auto size = static_cast<size_t>(base::RoundUp(bytes, kHugePageBytes) + kHugePageBytes);
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    return base::ResourceExhausted(fmt::format("the system has no {} bytes of memory", bytes));
  }
  AdviseHugePages(mapped, size);
  SpreadOverNodes(mapped, size);
  const auto address = static_cast<int64_t>(reinterpret_cast<intptr_t>(mapped));
  out.mapped_ = mapped;
  out.mapped_bytes_ = size;
  out.data_ = static_cast<std::byte*>(mapped) + (base::RoundUp(address, kHugePageBytes) - address);
  out.bytes_ = bytes;
  return out;
}

LargeBuffer::~LargeBuffer() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

}  // namespace thalweg::tensor
