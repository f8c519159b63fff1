// Ranks that are GPUs move bytes as the obvious model says: every operation, lengths that differ,
// some zero; one rank in one movement what the other has in two; and a rank that fails is named.
// Prints what an all-to-all takes by the size of messages, and what it would take without the host.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/cuda/nccl_library.h"
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

// As ranks do that share the rows of a prompt: what earlier ranks send is waited for alone.
void CheckForward(Communicator& gpu) {
  const std::vector<std::byte> message = MessageOf(7, 8, 30'000);
  const DeviceBytes mine(message);
  std::vector<std::unique_ptr<DeviceBytes>> rooms;
  std::vector<Incoming> earlier, later;
  std::vector<Outgoing> out;
  for (int r = 0; r < gpu.size(); ++r) {
    rooms.push_back(std::make_unique<DeviceBytes>(message.size()));
    if (r == gpu.rank()) continue;
    out.push_back({r, mine.span()});
    (r < gpu.rank() ? earlier : later).push_back({r, rooms.back()->span()});
  }
  const auto first = gpu.Begin({Operation::kExchange, {}, earlier});
  const auto second = gpu.Begin({Operation::kExchange, out, later});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status().ToString();
  ASSERT_TRUE(gpu.Finish(*first).ok());
  ASSERT_TRUE(gpu.Finish(*second).ok());
  for (int r = 0; r < gpu.size(); ++r) {
    if (r == gpu.rank()) continue;
    EXPECT_EQ(rooms[static_cast<size_t>(r)]->Read(), message) << r;
  }
}

TEST(Nccl, EarlierRanksAreWaitedForAlone) {
  if (GpuCount() < 2) GTEST_SKIP() << "one GPU";
  OnGpus(std::min(GpuCount(), 8), [](Communicator&, Communicator& gpu) {
    for (int round = 0; round < 20; ++round) CheckForward(gpu);
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

// What ranks queue, on a stream of theirs: once eagerly, then recorded, and the recording run
// often.
class QueuedMoves {
 public:
  QueuedMoves(Communicator& gpu, size_t bytes)
      : gpu_(gpu), bytes_(bytes), in_(bytes * static_cast<size_t>(gpu.size())) {
    cudaSetDevice(gpu.rank());
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    for (int r = 0; r < gpu.size(); ++r)
      out_.push_back(
          std::make_unique<DeviceBytes>(MessageOf(gpu.rank(), r, static_cast<int64_t>(bytes))));
  }
  QueuedMoves(const QueuedMoves&) = delete;
  QueuedMoves& operator=(const QueuedMoves&) = delete;
  ~QueuedMoves() {
    Forget();
    cudaStreamDestroy(stream_);
  }

  Status Queue(int count) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int r = 0; r < gpu_.size(); ++r) {
      if (r == gpu_.rank()) continue;
      out.push_back({r, out_[static_cast<size_t>(r)]->span()});
      in.push_back({r, in_.span().subspan(static_cast<size_t>(r) * bytes_, bytes_)});
    }
    for (int i = 0; i < count; ++i) {
      TW_TRY(gpu_.Enqueue({Operation::kAllToAll, out, in}, stream_));
      TW_TRY(gpu_.Join(stream_));
    }
    return {};
  }
  void Record(int count) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_TRUE(Queue(count).ok());
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&graph_, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
  }
  void Replay() { EXPECT_EQ(cudaGraphLaunch(graph_, stream_), cudaSuccess); }
  void Forget() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    graph_ = nullptr;
  }
  Status Await() {
    return gpu_.Await([&] { return cudaStreamQuery(stream_) != cudaErrorNotReady; });
  }
  void Clear() { cudaMemset(in_.span().data(), 0, in_.span().size()); }
  bool RightBytes() const {
    const std::vector<std::byte> came = in_.Read();
    for (int r = 0; r < gpu_.size(); ++r) {
      if (r == gpu_.rank()) continue;
      const auto expected = MessageOf(r, gpu_.rank(), static_cast<int64_t>(bytes_));
      if (!std::equal(expected.begin(), expected.end(),
                      came.begin() + r * static_cast<int64_t>(bytes_)))
        return false;
    }
    return true;
  }

 private:
  Communicator& gpu_;
  size_t bytes_;
  std::vector<std::unique_ptr<DeviceBytes>> out_;
  DeviceBytes in_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

TEST(Nccl, WhatIsQueuedArrivesRecordedOrNot) {
  if (GpuCount() < 1) GTEST_SKIP() << "no GPU";
  for (int ranks = 1; ranks <= std::min(GpuCount(), 8); ++ranks)
    OnGpus(ranks, [](Communicator& control, Communicator& gpu) {
      if (!gpu.queues()) return;  // this NCCL splits no groups
      for (const size_t bytes : {size_t{48}, size_t{4} << 10, size_t{3} << 20}) {
        QueuedMoves moves(gpu, bytes);
        ASSERT_TRUE(moves.Queue(3).ok());
        ASSERT_TRUE(moves.Await().ok());
        EXPECT_TRUE(moves.RightBytes());
        moves.Record(24);
        for (int i = 0; i < 5; ++i) {
          moves.Clear();
          ASSERT_TRUE(control.Barrier().ok());
          moves.Replay();
          ASSERT_TRUE(moves.Await().ok());
          EXPECT_TRUE(moves.RightBytes());
        }
        // Of the other kind behind recordings.
        const DeviceBytes mine(MessageOf(gpu.rank(), 0, 100));
        const DeviceBytes all(100 * static_cast<size_t>(gpu.size()));
        ASSERT_TRUE(gpu.AllGather(mine.span(), all.span()).ok());
        ASSERT_TRUE(control.Barrier().ok());
      }
    });
}

// A rank that fails while a recording of the other waits for it: that one hears of it in moments,
// its device is free again, and it ends.
void ExpectToldOfLoss(bool recorded) {
  RunRanks(2, [&](Communicator& control) {
    auto gpu = MakeNcclRank(&control, control.rank());
    ASSERT_TRUE(gpu.ok()) << gpu.status().ToString();
    QueuedMoves moves(**gpu, 1 << 20);
    ASSERT_TRUE(moves.Queue(1).ok());
    ASSERT_TRUE(moves.Await().ok());
    if (recorded) moves.Record(4);
    ASSERT_TRUE(control.Barrier().ok());
    if (control.rank() == 1) return control.Fail(base::ResourceExhausted("no memory"));
    if (recorded) {
      moves.Replay();
    } else {
      ASSERT_TRUE(moves.Queue(4).ok());
    }
    const auto began = Clock::now();
    const Status status = moves.Await();
    EXPECT_NE(status.message().find("rank 1 failed: resource exhausted: no memory"),
              std::string::npos)
        << status.ToString();
    moves.Forget();
    (*gpu)->DropQueued();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_LT(Clock::now() - began, Milliseconds(8000));
    EXPECT_FALSE(moves.Queue(1).ok());
  });
}

TEST(Nccl, ALossEndsWhatIsQueued) {
  if (GpuCount() < 2) GTEST_SKIP() << "one GPU";
  ExpectToldOfLoss(false);
}

TEST(Nccl, ALossEndsWhatIsRecorded) {
  if (GpuCount() < 2) GTEST_SKIP() << "one GPU";
  ExpectToldOfLoss(true);
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

// Exchanges between two GPUs by NCCL alone, on a stream: of a group whose calls wait until work is
// queued, split off one whose calls do not.
class Exchanges {
 public:
  Exchanges(Communicator& control, size_t bytes)
      : nccl_(**LoadNccl()),
        peer_(1 - control.rank()),
        out_(MessageOf(control.rank(), peer_, static_cast<int64_t>(bytes))),
        in_(bytes) {
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    ncclUniqueId id = {};
    if (control.rank() == 0) nccl_.get_unique_id(&id);
    EXPECT_TRUE(control.Broadcast(0, std::as_writable_bytes(std::span(&id, 1))).ok());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    nccl_.init_rank(&first_, 2, id, control.rank(), &config);
    WaitForFirst();
    config.blocking = 1;
    nccl_.split(first_, 0, control.rank(), &group_, &config);
    WaitForFirst();
    Queue(1);
    Wait();
  }
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;
  ~Exchanges() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    nccl_.abort(group_);
    nccl_.abort(first_);
    cudaStreamDestroy(stream_);
  }

  void WaitForFirst() {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) EXPECT_EQ(nccl_.async_error(first_, &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess) << nccl_.error_string(state);
  }
  void Queue(int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(nccl_.group_start(), ncclSuccess);
      EXPECT_EQ(
          nccl_.receive(in_.span().data(), in_.span().size(), ncclUint8, peer_, group_, stream_),
          ncclSuccess);
      EXPECT_EQ(
          nccl_.send(out_.span().data(), out_.span().size(), ncclUint8, peer_, group_, stream_),
          ncclSuccess);
      EXPECT_EQ(nccl_.group_end(), ncclSuccess);
    }
  }
  void Record(int count) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    Queue(count);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&graph_, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
  }
  void Replay() { EXPECT_EQ(cudaGraphLaunch(graph_, stream_), cudaSuccess); }
  void Wait() { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  bool RightBytes(int rank) const {
    return in_.Read() == MessageOf(peer_, rank, static_cast<int64_t>(in_.span().size()));
  }

 private:
  const NcclLibrary& nccl_;
  int peer_;
  DeviceBytes out_, in_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t first_ = nullptr, group_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

template <typename Work>
double MicrosecondsOf(Communicator& control, const Work& work) {
  EXPECT_TRUE(control.Barrier().ok());
  const auto began = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - began).count();
}

// What the fixed-capacity exchange of a decode step would take without the host: a layer has two.
TEST(Nccl, AnExchangeWaitedForQueuedAndRecorded) {
  if (GpuCount() < 2) GTEST_SKIP() << "one GPU";
  if ((*LoadNccl())->split == nullptr) GTEST_SKIP() << "this NCCL splits no groups";
  constexpr int kSteps = 50, kOfStep = 24;
  for (const size_t bytes : {size_t{4} << 10, size_t{64} << 10, size_t{1} << 20})
    RunRanks(2, [&](Communicator& control) {
      cudaSetDevice(control.rank());
      Exchanges gpu(control, bytes);
      const double waited = MicrosecondsOf(control, [&] {
        for (int i = 0; i < kSteps; ++i) gpu.Queue(1), gpu.Wait();
      });
      const double queued = MicrosecondsOf(control, [&] {
        for (int i = 0; i < kSteps; ++i) gpu.Queue(kOfStep), gpu.Wait();
      });
      gpu.Record(kOfStep);
      gpu.Replay();
      gpu.Wait();
      const double replayed = MicrosecondsOf(control, [&] {
        for (int i = 0; i < kSteps; ++i) gpu.Replay(), gpu.Wait();
      });
      EXPECT_TRUE(gpu.RightBytes(control.rank()));
      if (control.rank() == 0)
        fmt::print("{:>8} bytes: {:.1f} us waited for, {:.1f} queued, {:.1f} in a graph of {}\n",
                   bytes, waited / kSteps, queued / kSteps / kOfStep, replayed / kSteps / kOfStep,
                   kOfStep);
      EXPECT_TRUE(control.Barrier().ok());
    });
}

}  // namespace
}  // namespace thalweg::comm
