// Runs op tests on a device: what the tests allocate, and their stack, lies in memory of the host
// that kernels can read and write, and every op is waited for. Without a device the tests are
// skipped and say why.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/test_kit.h"

namespace {

constexpr size_t kArenaBytes = size_t{2} << 30;
constexpr size_t kStackBytes = size_t{64} << 20;
constexpr size_t kHeader = 64;   // before each piece: its class
constexpr size_t kClasses = 48;  // powers of two

// Pieces of one mapping, which is never given back.
class Arena {
 public:
  char* base() { return base_; }
  bool Owns(const void* p) const { return p >= base_ && p < base_ + kArenaBytes; }

  void* Take(size_t bytes) {
    const auto size_class = static_cast<size_t>(std::bit_width(bytes + kHeader - 1));
    Lock();
    char* piece = free_[size_class];
    if (piece != nullptr) {
      free_[size_class] = *reinterpret_cast<char**>(piece);
    } else if (used_ + (size_t{1} << size_class) <= kArenaBytes) {
      piece = base_ + used_;
      used_ += size_t{1} << size_class;
    }
    busy_.clear();
    if (piece == nullptr) return nullptr;
    *reinterpret_cast<size_t*>(piece) = size_class;
    return piece + kHeader;
  }

  void Give(void* p) {
    char* piece = static_cast<char*>(p) - kHeader;
    const size_t size_class = *reinterpret_cast<size_t*>(piece);
    Lock();
    *reinterpret_cast<char**>(piece) = free_[size_class];
    free_[size_class] = piece;
    busy_.clear();
  }

 private:
  void Lock() {
    while (busy_.test_and_set()) {
    }
  }

  char* base_ = static_cast<char*>(mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  size_t used_ = kStackBytes;  // the stack of the tests comes first
  char* free_[kClasses] = {};
  std::atomic_flag busy_;
};

Arena& TheArena() {
  static Arena arena;
  return arena;
}

}  // namespace

void* operator new(size_t bytes) {
  void* p = TheArena().Take(bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept {
  if (p != nullptr) TheArena().Give(p);
}
void operator delete(void* p, size_t /*bytes*/) noexcept {
  if (p != nullptr) TheArena().Give(p);
}

namespace thalweg::kernels {
namespace {

// One op, waited for.
template <typename Params, void (*Ops::*kOp)(const Params&)>
void Waited(const Params& p) {
  (cuda::CudaOps().*kOp)(p);
  const Status status = cuda::CudaMemory().synchronize(p.stream);
  if (status.ok()) return;
  // Nothing works after an error of the device.
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::_Exit(1);
}

const Ops& WaitedOps() {
  static const Ops ops = [] {
    Ops made = cuda::CudaOps();
    made.embed = Waited<EmbedParams, &Ops::embed>;
    made.hyper_finish = Waited<HyperFinishParams, &Ops::hyper_finish>;
    made.hyper_predict = Waited<HyperPredictParams, &Ops::hyper_predict>;
    made.collapse = Waited<CollapseParams, &Ops::collapse>;
    made.tap = Waited<TapParams, &Ops::tap>;
    made.linear = Waited<LinearParams, &Ops::linear>;
    made.grouped_linear = Waited<GroupedLinearParams, &Ops::grouped_linear>;
    made.norm = Waited<NormParams, &Ops::norm>;
    made.window_rows = Waited<WindowRowsParams, &Ops::window_rows>;
    made.pool = Waited<PoolParams, &Ops::pool>;
    made.store_rows = Waited<StoreRowsParams, &Ops::store_rows>;
    made.index_select = Waited<IndexSelectParams, &Ops::index_select>;
    made.attention = Waited<AttentionParams, &Ops::attention>;
    made.gate = Waited<GateParams, &Ops::gate>;
    made.experts = Waited<ExpertsParams, &Ops::experts>;
    made.engram_gather = Waited<EngramGatherParams, &Ops::engram_gather>;
    made.engram_gate = Waited<EngramGateParams, &Ops::engram_gate>;
    made.markov = Waited<MarkovParams, &Ops::markov>;
    made.copy_rows = Waited<CopyRowsParams, &Ops::copy_rows>;
    made.compact_rows = Waited<CompactRowsParams, &Ops::compact_rows>;
    return made;
  }();
  return ops;
}

class NeedsDevice : public ::testing::Environment {
 public:
  void SetUp() override {
    const Status status = cuda::DeviceStatus();
    if (!status.ok()) GTEST_SKIP() << status.message();
    ASSERT_EQ(cudaHostRegister(TheArena().base(), kArenaBytes, cudaHostRegisterDefault),
              cudaSuccess);
  }
};

void* RunTests(void* result) {
  *static_cast<int*>(result) = RUN_ALL_TESTS();
  return nullptr;
}

}  // namespace

namespace testing {
const Ops* DeviceOps() { return &WaitedOps(); }
}  // namespace testing

}  // namespace thalweg::kernels

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new thalweg::kernels::NeedsDevice);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, TheArena().base(), kStackBytes);
  pthread_t thread = {};
  int result = 1;
  TW_CHECK_EQ(pthread_create(&thread, &attributes, thalweg::kernels::RunTests, &result), 0);
  pthread_join(thread, nullptr);
  return result;
}
