// Ranks that are GPUs move bytes as the obvious model says: every operation, lengths that differ,
// some zero; and a rank that fails is named. Prints what an all-to-all takes by the size of
// messages.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/cuda/nccl_rank.h"
#include "comm/test_ranks.h"

namespace thalweg::comm {
namespace {

// Bytes on the current device.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t size) : size_(size) {
    if (cudaMalloc(&data_, std::max<size_t>(size, 1)) != cudaSuccess) data_ = nullptr;
  }
  explicit DeviceBytes(const std::vector<std::byte>& bytes) : DeviceBytes(bytes.size()) {
    cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }

  std::span<std::byte> span() const { return {static_cast<std::byte*>(data_), size_}; }
  std::vector<std::byte> Read() const {
    std::vector<std::byte> bytes(size_);
    cudaMemcpy(bytes.data(), data_, size_, cudaMemcpyDeviceToHost);
    return bytes;
  }

 private:
  void* data_ = nullptr;
  size_t size_;
};

int64_t BytesFromTo(int from, int to) { return (from * 3 + to) % 4 * 1000 + from; }

std::vector<std::byte> MessageOf(int from, int to, int64_t bytes) {
  std::vector<std::byte> message(static_cast<size_t>(bytes));
  for (size_t i = 0; i < message.size(); ++i)
    message[i] = static_cast<std::byte>(i * 7 + static_cast<size_t>(from * 31 + to * 13));
  return message;
}

void Append(const std::vector<std::byte>& more, std::vector<std::byte>* all) {
  all->insert(all->end(), more.begin(), more.end());
}

void CheckAllToAll(Communicator& gpu) {
  std::vector<std::byte> out, expected;
  std::vector<int64_t> out_bytes, in_bytes;
  for (int r = 0; r < gpu.size(); ++r) {
    out_bytes.push_back(BytesFromTo(gpu.rank(), r));
    in_bytes.push_back(BytesFromTo(r, gpu.rank()));
    Append(MessageOf(gpu.rank(), r, out_bytes.back()), &out);
    Append(MessageOf(r, gpu.rank(), in_bytes.back()), &expected);
  }
  const DeviceBytes sent(out), received(expected.size());
  const Status status = gpu.AllToAll(sent.span(), out_bytes, received.span(), in_bytes);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(received.Read(), expected);
}

void CheckAllGather(Communicator& gpu) {
  std::vector<std::byte> expected;
  std::vector<int64_t> bytes;
  for (int r = 0; r < gpu.size(); ++r) {
    bytes.push_back(BytesFromTo(r, 0));
    Append(MessageOf(r, 0, bytes.back()), &expected);
  }
  const DeviceBytes mine(MessageOf(gpu.rank(), 0, BytesFromTo(gpu.rank(), 0)));
  const DeviceBytes all(expected.size());
  ASSERT_TRUE(gpu.AllGather(mine.span(), bytes, all.span()).ok());
  EXPECT_EQ(all.Read(), expected);
}

void CheckBroadcast(Communicator& gpu) {
  const std::vector<std::byte> expected = MessageOf(5, 6, 4096);
  const DeviceBytes data(gpu.rank() == 0 ? expected : std::vector<std::byte>(expected.size()));
  ASSERT_TRUE(gpu.Broadcast(0, data.span()).ok());
  EXPECT_EQ(data.Read(), expected);
}

void OnGpus(int ranks, const std::function<void(Communicator& control, Communicator& gpu)>& body) {
  RunRanks(ranks, [&](Communicator& control) {
    auto gpu = MakeNcclRank(&control, control.rank());
    ASSERT_TRUE(gpu.ok()) << gpu.status().ToString();
    body(control, **gpu);
    EXPECT_TRUE(control.Barrier().ok());
  });
}

TEST(Nccl, MovesWhatTheModelSays) {
  if (GpuCount() < 1) GTEST_SKIP() << "no GPU";
  for (int ranks = 1; ranks <= std::min(GpuCount(), 8); ++ranks)
    OnGpus(ranks, [](Communicator&, Communicator& gpu) {
      for (int round = 0; round < 20; ++round) {
        CheckAllToAll(gpu);
        CheckAllGather(gpu);
        CheckBroadcast(gpu);
      }
    });
}

TEST(Nccl, AFailureIsHeardWithItsReason) {
  if (GpuCount() < 2) GTEST_SKIP() << "one GPU";
  RunRanks(2, [](Communicator& control) {
    auto gpu = MakeNcclRank(&control, control.rank());
    ASSERT_TRUE(gpu.ok()) << gpu.status().ToString();
    if (control.rank() == 1) return control.Fail(base::ResourceExhausted("no memory"));
    const DeviceBytes data(1 << 20);
    const Status status = (*gpu)->Receive(1, data.span());
    EXPECT_NE(status.message().find("rank 1 failed: resource exhausted: no memory"),
              std::string::npos)
        << status.ToString();
  });
}

// Seconds of one all-to-all in which each of two GPUs sends the other so many bytes.
double SecondsOf(Communicator& control, Communicator& gpu, int64_t size, int rounds) {
  const DeviceBytes out(2 * static_cast<size_t>(size)), in(2 * static_cast<size_t>(size));
  const std::vector<int64_t> bytes = {size, size};
  EXPECT_TRUE(gpu.AllToAll(out.span(), bytes, in.span(), bytes).ok());
  EXPECT_TRUE(control.Barrier().ok());
  const auto began = Clock::now();
  for (int i = 0; i < rounds; ++i)
    EXPECT_TRUE(gpu.AllToAll(out.span(), bytes, in.span(), bytes).ok());
  return std::chrono::duration<double>(Clock::now() - began).count() / rounds;
}

TEST(Nccl, AllToAllBySize) {
  if (GpuCount() < 2) GTEST_SKIP() << "one GPU";
  OnGpus(2, [](Communicator& control, Communicator& gpu) {
    double rate = 0;
    for (int64_t size = 256; size <= 256 << 20; size *= 8) {
      const double seconds = SecondsOf(control, gpu, size, size < 1 << 20 ? 200 : 10);
      rate = static_cast<double>(size) / seconds / 1e9;
      if (control.rank() == 0)
        fmt::print("{:>10} bytes to the other GPU: {:>8.1f} us, {:.1f} GB/s\n", size, seconds * 1e6,
                   rate);
    }
    EXPECT_GT(rate, 1.0);
  });
}

}  // namespace
}  // namespace thalweg::comm
