#include "comm/cuda/nccl_rank.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "comm/backoff.h"
#include "comm/cuda/nccl_library.h"

namespace thalweg::comm {
namespace {

constexpr Milliseconds kMostStart{60'000};
constexpr uint64_t kPollsPerLook = 64;
constexpr Milliseconds kStepOfGraph{5};

Status CudaStatus(cudaError_t code, std::string_view call) {
  if (code == cudaSuccess) return {};
  return base::IoError(fmt::format("{}: {}", call, cudaGetErrorString(code)));
}

// What one rank owns of the device and of NCCL. Calls for `group` return at once, whatever becomes
// of them; those for `queued` return when work is on the stream, so that it can be recorded.
struct Handles {
  const NcclLibrary* nccl = nullptr;
  ncclComm_t group = nullptr, queued = nullptr;
  cudaStream_t stream = nullptr, beside = nullptr;
  cudaEvent_t forked = nullptr, joined = nullptr;
  std::array<cudaEvent_t, kMostPending> done = {};
  char* meeting = nullptr;  // what the first bytes are read from and written to

  Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    DropQueued();
    Abort();
    cudaFree(meeting);  // it waits for the device, which waits for nobody now
    for (const cudaEvent_t event : {forked, joined})
      if (event != nullptr) cudaEventDestroy(event);
    for (const cudaEvent_t event : done)
      if (event != nullptr) cudaEventDestroy(event);
    for (const cudaStream_t each : {stream, beside})
      if (each != nullptr) cudaStreamDestroy(each);
  }

  // Ends what is on its way; afterwards nobody touches buffers.
  void Abort() {
    if (group != nullptr) nccl->abort(group);
    group = nullptr;
  }
  // It returns when no graph has any of it.
  void DropQueued() {
    if (queued != nullptr) nccl->abort(queued);
    queued = nullptr;
  }
  // In progress is no error: the group does not block.
  Status Check(ncclResult_t code, std::string_view call) const {
    if (code == ncclSuccess || code == ncclInProgress) return {};
    return base::IoError(fmt::format("{}: {}", call, nccl->error_string(code)));
  }
  // The state of what NCCL does in the background.
  Result<bool> Ready() const {
    ncclResult_t state = ncclSuccess;
    TW_TRY(Check(nccl->async_error(group, &state), "ncclCommGetAsyncError"));
    TW_TRY(Check(state, "NCCL"));
    return state == ncclSuccess;
  }

  Status Open(Communicator* control, int device) {
    TW_ASSIGN(nccl, LoadNccl());
    TW_TRY(CudaStatus(cudaSetDevice(device), fmt::format("cudaSetDevice({})", device)));
    for (cudaStream_t* each : {&stream, &beside})
      TW_TRY(CudaStatus(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking),
                        "cudaStreamCreateWithFlags"));
    for (cudaEvent_t& event : done) TW_TRY(MakeEvent(&event));
    TW_TRY(MakeEvent(&forked));
    TW_TRY(MakeEvent(&joined));
    TW_TRY(Start(control));
    return StartQueued(control);
  }

  static Status MakeEvent(cudaEvent_t* event) {
    return CudaStatus(cudaEventCreateWithFlags(event, cudaEventDisableTiming),
                      "cudaEventCreateWithFlags");
  }

  Status Start(Communicator* control) {
    ncclUniqueId id = {};
    if (control->rank() == 0) TW_TRY(Check(nccl->get_unique_id(&id), "ncclGetUniqueId"));
    TW_TRY(control->Broadcast(0, std::as_writable_bytes(std::span(&id, 1))));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    TW_TRY(Check(nccl->init_rank(&group, control->size(), id, control->rank(), &config),
                 "ncclCommInitRankConfig"));
    TW_TRY(WaitUntilReady(control, kMostStart));
    return Meet(control, group, stream);
  }

  // A group of its own for what is queued, where NCCL can split one off.
  Status StartQueued(Communicator* control) {
    if (nccl->split == nullptr || control->size() == 1) return {};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    TW_TRY(Check(nccl->split(group, 0, control->rank(), &queued, &config), "ncclCommSplit"));
    TW_TRY(WaitUntilReady(control, kMostStart));
    return Meet(control, queued, beside);
  }

  // A byte to and from every other rank, in one group: NCCL connects two ranks with what both ask
  // for in their first group, which must be the same. Later ones may differ: one rank sends and
  // receives in one movement what the other has in two.
  Status Meet(Communicator* control, ncclComm_t with, cudaStream_t on) {
    const int ranks = control->size(), self = control->rank();
    if (meeting == nullptr)
      TW_TRY(CudaStatus(cudaMalloc(&meeting, 2 * static_cast<size_t>(ranks)), "cudaMalloc"));
    TW_TRY(Check(nccl->group_start(), "ncclGroupStart"));
    for (int r = 0; r < ranks; ++r) {
      if (r == self) continue;
      TW_TRY(Check(nccl->receive(meeting + r, 1, ncclUint8, r, with, on), "ncclRecv"));
      TW_TRY(Check(nccl->send(meeting + ranks + r, 1, ncclUint8, r, with, on), "ncclSend"));
    }
    TW_TRY(Check(nccl->group_end(), "ncclGroupEnd"));
    TW_TRY(WaitUntilReady(control, kMostStart));
    return WaitUntilDone(control, on);
  }

  Status WaitUntilDone(Communicator* control, cudaStream_t on) const {
    const Clock::time_point began = Clock::now();
    Backoff backoff(began);
    while (true) {
      const cudaError_t state = cudaStreamQuery(on);
      if (state == cudaSuccess) return {};
      if (state != cudaErrorNotReady) return CudaStatus(state, "cudaStreamQuery");
      const Clock::time_point now = Clock::now();
      if (backoff.TimeToLook(now)) TW_TRY(control->Check());
      if (now - began > kMostStart) return base::IoError("NCCL does not move the first bytes");
      backoff.Pause(now);
    }
  }

  Status WaitUntilReady(Communicator* control, Milliseconds most) const {
    const Clock::time_point began = Clock::now();
    Backoff backoff(began);
    while (true) {
      TW_ASSIGN(const bool ready, Ready());
      if (ready) return {};
      const Clock::time_point now = Clock::now();
      if (backoff.TimeToLook(now)) TW_TRY(control->Check());
      if (now - began > most) return base::IoError("NCCL does not become ready: a rank is missing");
      backoff.Pause(now);
    }
  }
};

class NcclRank final : public Communicator {
 public:
  NcclRank(Communicator* control, int device, std::unique_ptr<Handles> handles)
      : Communicator(control->rank(), control->size(), OnlyPatience(control->limits())),
        control_(control),
        device_(device),
        handles_(std::move(handles)) {}

  bool on_host() const override { return false; }

  bool queues() const override { return handles_->queued != nullptr || size() == 1; }

  Status Enqueue(const Movement& movement, void* queue) override {
    if (!queues()) return base::FailedPrecondition("nothing can be queued any more");
    TW_TRY(CudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
    TW_TRY(CudaStatus(cudaEventRecord(handles_->forked, static_cast<cudaStream_t>(queue)),
                      "cudaEventRecord"));
    TW_TRY(CudaStatus(cudaStreamWaitEvent(handles_->beside, handles_->forked, 0),
                      "cudaStreamWaitEvent"));
    if (size() > 1) TW_TRY(Put(movement, handles_->queued, handles_->beside));
    return CudaStatus(cudaEventRecord(handles_->joined, handles_->beside), "cudaEventRecord");
  }

  Status Join(void* queue) override {
    return CudaStatus(cudaStreamWaitEvent(static_cast<cudaStream_t>(queue), handles_->joined, 0),
                      "cudaStreamWaitEvent");
  }

  // A loss of the group on the host ends it, and so does an error of NCCL.
  Status Await(const std::function<bool()>& done) override {
    const Clock::time_point began = Clock::now();
    Backoff backoff(began + kStepOfGraph);  // which is not slept through
    while (!done()) {
      const Clock::time_point now = Clock::now();
      if (backoff.TimeToLook(now)) TW_TRY(LookAtQueued(now - began));
      backoff.Pause(now);
    }
    return {};
  }

  void DropQueued() override { handles_->DropQueued(); }

 protected:
  void CopyToSelf(std::span<std::byte> to, std::span<const std::byte> from) override {
    cudaSetDevice(device_);
    copied_ = CudaStatus(cudaMemcpyAsync(to.data(), from.data(), from.size(),
                                         cudaMemcpyDeviceToDevice, handles_->stream),
                         "cudaMemcpyAsync");
  }

  Status Post(int slot, const Movement& movement) override {
    TW_TRY(copied_);
    TW_TRY(CudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
    TW_TRY(Put(movement, handles_->group, handles_->stream));
    TW_TRY(handles_->WaitUntilReady(control_, limits().patience));
    waits_for_[static_cast<size_t>(slot)] = SomePeer(movement);
    return CudaStatus(cudaEventRecord(Done(slot), handles_->stream), "cudaEventRecord");
  }

  Result<bool> Poll(int slot) override {
    const cudaError_t state = cudaEventQuery(Done(slot));
    if (state == cudaSuccess) return true;
    if (state != cudaErrorNotReady) return CudaStatus(state, "cudaEventQuery");
    TW_TRY(handles_->Ready().status());
    // A loss of the group on the host is one of this group.
    if (++polls_ % kPollsPerLook == 0) TW_TRY(control_->Check());
    return false;
  }

  // The stream does not tell which of its messages is late.
  int WaitsFor(int slot) override { return waits_for_[static_cast<size_t>(slot)]; }

  void Abandon(int /*slot*/) override { handles_->Abort(); }

  void Say(const Pulse& pulse) override {
    if (pulse.health == Health::kFailed || pulse.health == Health::kLostRank)
      control_->Fail(base::IoError(std::string(pulse.Text())));
  }

  // Poll asks the group on the host.
  void Hear(Liveness* liveness, Clock::time_point now) override {
    for (int r = 0; r < size(); ++r) liveness->Heard(r, {}, now);
  }

 private:
  static Limits OnlyPatience(Limits limits) {
    limits.silence = Milliseconds(0);
    return limits;
  }
  cudaEvent_t Done(int slot) const { return handles_->done[static_cast<size_t>(slot)]; }

  static int SomePeer(const Movement& movement) {
    if (!movement.in.empty()) return movement.in.front().from;
    return movement.out.empty() ? -1 : movement.out.front().to;
  }

  Status LookAtQueued(Clock::duration waited) {
    TW_TRY(control_->Check());
    if (handles_->queued != nullptr) {
      ncclResult_t state = ncclSuccess;
      TW_TRY(handles_->Check(handles_->nccl->async_error(handles_->queued, &state),
                             "ncclCommGetAsyncError"));
      TW_TRY(handles_->Check(state, "NCCL"));
    }
    if (waited <= limits().patience) return {};
    return base::IoError(fmt::format("rank {} waits in vain for what the others send: {} s", rank(),
                                     limits().patience.count() / 1000));
  }

  Status Put(const Movement& movement, ncclComm_t group, cudaStream_t stream) {
    const NcclLibrary& nccl = *handles_->nccl;
    TW_TRY(handles_->Check(nccl.group_start(), "ncclGroupStart"));
    for (const Incoming& m : movement.in)
      TW_TRY(handles_->Check(
          nccl.receive(m.bytes.data(), m.bytes.size(), ncclUint8, m.from, group, stream),
          "ncclRecv"));
    for (const Outgoing& m : movement.out)
      TW_TRY(handles_->Check(
          nccl.send(m.bytes.data(), m.bytes.size(), ncclUint8, m.to, group, stream), "ncclSend"));
    return handles_->Check(nccl.group_end(), "ncclGroupEnd");
  }

  Communicator* control_;
  int device_;
  std::unique_ptr<Handles> handles_;
  std::array<int, kMostPending> waits_for_ = {};
  Status copied_;
  uint64_t polls_ = 0;
};

}  // namespace

Result<std::unique_ptr<Communicator>> MakeNcclRank(Communicator* control, int device) {
  auto handles = std::make_unique<Handles>();
  Status status = handles->Open(control, device);
  if (!status.ok()) {
    // The others wait for this rank in the same place.
    control->Fail(status);
    return status;
  }
  return std::unique_ptr<Communicator>(
      std::make_unique<NcclRank>(control, device, std::move(handles)));
}

int GpuCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace thalweg::comm
