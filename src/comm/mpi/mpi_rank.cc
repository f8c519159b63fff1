#include "comm/mpi/mpi_rank.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/mpi/calls.h"

namespace thalweg::comm {
namespace {

constexpr int kPulseTag = 1;
constexpr Milliseconds kGoodbye{100};
constexpr int kMostHeard = 1024;  // pulses taken in at a time

int RankOf(MPI_Comm communicator) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}

int SizeOf(MPI_Comm communicator) {
  int size = 0;
  MPI_Comm_size(communicator, &size);
  return size;
}

// Messages of one kind of operation meet only each other: a rank that runs another operation is
// waited for in vain, and named.
int TagOf(Operation operation) { return static_cast<int>(operation); }

class MpiRank final : public Communicator {
 public:
  MpiRank(MPI_Comm messages, MPI_Comm pulses, Limits limits)
      : Communicator(RankOf(messages), SizeOf(messages), limits),
        messages_(messages),
        pulses_(pulses),
        said_(static_cast<size_t>(size())) {}
  ~MpiRank() override {
    Leave();
    // MPI may still read pulses that are on their way: if it does for long, their memory stays.
    if (!AllSaid()) static_cast<void>(new std::vector<Said>(std::move(said_)));
  }

 protected:
  Status Post(int slot, const Movement& movement) override {
    const std::lock_guard lock(MpiMutex());
    UnderWay& under_way = slots_[static_cast<size_t>(slot)];
    under_way.Clear();
    for (const Incoming& message : movement.in) TW_TRY(Expect(message, movement, &under_way));
    for (const Outgoing& message : movement.out) TW_TRY(Send(message, movement, &under_way));
    under_way.left = static_cast<int>(under_way.requests.size());
    under_way.done.resize(under_way.requests.size());
    under_way.statuses.resize(under_way.requests.size());
    return {};
  }

  Result<bool> Poll(int slot) override {
    UnderWay& under_way = slots_[static_cast<size_t>(slot)];
    if (under_way.left == 0) return true;
    const std::lock_guard lock(MpiMutex());
    int count = 0;
    const int code =
        MPI_Testsome(static_cast<int>(under_way.requests.size()), under_way.requests.data(), &count,
                     under_way.done.data(), under_way.statuses.data());
    if (code == MPI_ERR_IN_STATUS) return FirstError(under_way, count);
    TW_TRY(MpiStatus(code, "MPI_Testsome"));
    if (count == MPI_UNDEFINED) count = 0;
    for (int i = 0; i < count; ++i)
      TW_TRY(CheckLength(under_way, static_cast<size_t>(under_way.done[static_cast<size_t>(i)]),
                         under_way.statuses[static_cast<size_t>(i)]));
    under_way.left -= count;
    return under_way.left == 0;
  }

  int WaitsFor(int slot) override {
    const UnderWay& under_way = slots_[static_cast<size_t>(slot)];
    for (size_t i = 0; i < under_way.requests.size(); ++i)
      if (under_way.requests[i] != MPI_REQUEST_NULL) return under_way.pieces[i].peer;
    return -1;
  }

  // MPI moves data in calls alone, and after a loss there are none for messages.
  void Abandon(int slot) override { slots_[static_cast<size_t>(slot)].Clear(); }

  // A rank that has not taken in the last pulse gets no new one.
  void Say(const Pulse& pulse) override {
    const std::lock_guard lock(MpiMutex());
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      Said& said = said_[static_cast<size_t>(r)];
      int done = 0;
      if (MPI_Test(&said.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0) continue;
      said.pulse = pulse;
      MPI_Isend(&said.pulse, sizeof(Pulse), MPI_BYTE, r, kPulseTag, pulses_, &said.request);
    }
  }

  void Hear(Liveness* liveness, Clock::time_point now) override {
    const std::lock_guard lock(MpiMutex());
    for (int i = 0; i < kMostHeard; ++i) {
      int there = 0;
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, kPulseTag, pulses_, &there, &status) != MPI_SUCCESS) return;
      if (there == 0) return;
      Pulse pulse;
      if (MPI_Recv(&pulse, sizeof(pulse), MPI_BYTE, status.MPI_SOURCE, kPulseTag, pulses_,
                   MPI_STATUS_IGNORE) == MPI_SUCCESS)
        liveness->Heard(status.MPI_SOURCE, pulse, now);
    }
  }

 private:
  struct Piece {
    int peer = -1;
    int expected = -1;  // bytes; -1 for what is sent
  };
  struct UnderWay {
    std::vector<MPI_Request> requests;
    std::vector<Piece> pieces;
    std::vector<int> done;
    std::vector<MPI_Status> statuses;
    int left = 0;

    MPI_Request* Add(Piece piece) {
      pieces.push_back(piece);
      return &requests.emplace_back(MPI_REQUEST_NULL);
    }
    void Clear() {
      requests.clear();
      pieces.clear();
      left = 0;
    }
  };
  struct Said {
    Pulse pulse;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  bool AllSaid() {
    const Clock::time_point until = Clock::now() + kGoodbye;
    while (true) {
      const std::lock_guard lock(MpiMutex());
      const bool all = std::all_of(said_.begin(), said_.end(), [](Said& said) {
        int done = 0;
        return MPI_Test(&said.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
      });
      if (all || Clock::now() > until) return all;
    }
  }

  // Calls piece(begin, bytes) for the pieces of a message.
  template <typename Body>
  static Status ForPieces(size_t bytes, const Body& piece) {
    for (size_t begin = 0; begin < bytes; begin += kMostPieceBytes)
      TW_TRY(piece(begin, static_cast<int>(std::min<size_t>(bytes - begin, kMostPieceBytes))));
    return {};
  }

  Status Expect(const Incoming& message, const Movement& movement, UnderWay* under_way) const {
    return ForPieces(message.bytes.size(), [&](size_t begin, int bytes) {
      return MpiStatus(
          MPI_Irecv(message.bytes.data() + begin, bytes, MPI_BYTE, message.from,
                    TagOf(movement.operation), messages_, under_way->Add({message.from, bytes})),
          "MPI_Irecv");
    });
  }

  Status Send(const Outgoing& message, const Movement& movement, UnderWay* under_way) const {
    return ForPieces(message.bytes.size(), [&](size_t begin, int bytes) {
      return MpiStatus(
          MPI_Isend(message.bytes.data() + begin, bytes, MPI_BYTE, message.to,
                    TagOf(movement.operation), messages_, under_way->Add({message.to, -1})),
          "MPI_Isend");
    });
  }

  static Status FirstError(const UnderWay& under_way, int count) {
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(under_way.done[static_cast<size_t>(i)]);
      const int code = under_way.statuses[static_cast<size_t>(i)].MPI_ERROR;
      if (code != MPI_SUCCESS)
        return MpiStatus(code, fmt::format("message of rank {}", under_way.pieces[at].peer));
    }
    return base::Internal("MPI_Testsome names no error");
  }

  Status CheckLength(const UnderWay& under_way, size_t at, const MPI_Status& status) const {
    const Piece& piece = under_way.pieces[at];
    if (piece.expected < 0) return {};
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes == piece.expected) return {};
    return base::Internal(fmt::format("rank {} sends {} bytes where rank {} expects {}", piece.peer,
                                      bytes, rank(), piece.expected));
  }

  MPI_Comm messages_;
  MPI_Comm pulses_;
  std::array<UnderWay, kMostPending> slots_;
  std::vector<Said> said_;  // by rank
};

}  // namespace

std::unique_ptr<Communicator> MakeMpiRank(MPI_Comm messages, MPI_Comm pulses, Limits limits) {
  return std::make_unique<MpiRank>(messages, pulses, limits);
}

}  // namespace thalweg::comm
