// Every limit of the room.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace thalweg::comm {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

inline constexpr int kMaxRanks = 4096;
inline constexpr int kMostPending = 4;  // movements of one communicator under way at a time
// A longer message travels in pieces: MPI counts in 32-bit integers.
inline constexpr int64_t kMostPieceBytes = int64_t{1} << 30;
// Sums of fewer bytes are gathered whole and added by everybody; longer ones are added in pieces.
inline constexpr int64_t kSmallSumBytes = 4096;
inline constexpr size_t kMostAgreedBytes = 16 << 20;  // of one rank's fields (Agree)

// How long a rank waits before it gives another one up.
struct Limits {
  // For a rank that lives and does not come. Longer than the longest step.
  Milliseconds patience{120'000};
  // For a rank of which nothing is heard. 0: ranks do not beat (one process), patience alone
  // counts.
  Milliseconds silence{4'000};
  // Between two beats of a rank: a small part of `silence`.
  Milliseconds period{250};
};

}  // namespace thalweg::comm
