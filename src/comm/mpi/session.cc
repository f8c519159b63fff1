#include "comm/mpi/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "comm/mpi/calls.h"
#include "comm/mpi/mpi_rank.h"

namespace thalweg::comm {
namespace {

constexpr unsigned kMostStartSeconds = 60;
constexpr unsigned kMostEndSeconds = 5;
constexpr Milliseconds kMostGoodbye{5'000};

void GiveUp(int) {
  constexpr std::string_view kMessage =
      "thalweg: MPI did not start or end in time: a rank does not come\n";
  static_cast<void>(!write(STDERR_FILENO, kMessage.data(), kMessage.size()));
  _exit(kExitRankLost);
}

// Calls of MPI that wait for every rank, and have no deadline of their own, get one by alarm(2).
class Deadline {
 public:
  explicit Deadline(unsigned seconds) {
    struct sigaction action = {};
    action.sa_handler = GiveUp;
    sigaction(SIGALRM, &action, &before_);
    alarm(seconds);
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() {
    alarm(0);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ = {};
};

}  // namespace

Status MpiStatus(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return {};
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return base::IoError(fmt::format("{}: {}", call, std::string_view(text.data(), length)));
}

std::mutex& MpiMutex() {
  static std::mutex mutex;
  return mutex;
}

struct MpiSession::Handles {
  MPI_Comm messages = MPI_COMM_NULL;
  MPI_Comm pulses = MPI_COMM_NULL;
  MPI_Comm host = MPI_COMM_NULL;

  Status Open() {
    TW_TRY(MpiStatus(MPI_Comm_dup(MPI_COMM_WORLD, &messages), "MPI_Comm_dup"));
    TW_TRY(MpiStatus(MPI_Comm_dup(MPI_COMM_WORLD, &pulses), "MPI_Comm_dup"));
    TW_TRY(MpiStatus(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type"));
    for (const MPI_Comm communicator : {messages, pulses, host})
      TW_TRY(MpiStatus(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN),
                       "MPI_Comm_set_errhandler"));
    return {};
  }
  void Close() {
    for (MPI_Comm* communicator : {&messages, &pulses, &host}) MPI_Comm_free(communicator);
    MPI_Finalize();
  }
};

Result<std::unique_ptr<MpiSession>> MpiSession::Start(Limits limits) {
  const Deadline deadline(kMostStartSeconds);
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) return base::FailedPrecondition("MPI is started already in this process");
  int provided = 0;
  TW_TRY(MpiStatus(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
                   "MPI_Init_thread"));
  if (provided < MPI_THREAD_SERIALIZED)
    return base::Unsupported("this MPI was built without support for threads");
  auto handles = std::make_unique<Handles>();
  TW_TRY(handles->Open());
  return std::unique_ptr<MpiSession>(new MpiSession(std::move(handles), limits));
}

MpiSession::MpiSession(std::unique_ptr<Handles> handles, Limits limits)
    : handles_(std::move(handles)),
      world_(MakeMpiRank(handles_->messages, handles_->pulses, limits)) {
  MPI_Comm_rank(handles_->host, &rank_on_host_);
  MPI_Comm_size(handles_->host, &ranks_on_host_);
}

MpiSession::~MpiSession() {
  if (world_ == nullptr) return;
  if (const Status status = End(); !status.ok())
    fmt::print(stderr, "thalweg: rank {}: {}\n", world_->rank(), status.ToString());
}

Status MpiSession::End() {
  TW_TRY(world_->Barrier(kMostGoodbye));
  world_.reset();
  const Deadline deadline(kMostEndSeconds);
  handles_->Close();
  return {};
}

}  // namespace thalweg::comm
