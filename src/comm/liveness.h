// Who is still there: the pulses that one rank has heard, and what follows from them. A pure state
// machine: times are handed in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/limits.h"
#include "comm/pulse.h"

namespace thalweg::comm {

// Why a group cannot go on.
struct Loss {
  int rank = -1;
  std::string reason;  // "rank 2 is gone: ..."
  bool told = false;   // another rank has found it, and told everybody
};

class Liveness {
 public:
  // Silence counts from `now` on.
  Liveness(int rank, int size, Limits limits, Clock::time_point now);

  void Heard(int rank, const Pulse& pulse, Clock::time_point now);
  // To be called whenever the rank looks after the others. A rank that was away itself, for longer
  // than half the limit of silence, holds nobody's silence against him: it may have been stopped
  // and heard nothing for that reason.
  void LookAround(Clock::time_point now);
  // The first loss that is known: ranks that said that they failed, then ranks that others gave up,
  // then those of which nothing was heard for too long. A rank that left is lost when it is waited
  // for (waits_for >= 0), some time later: its last message may come in behind its last words.
  std::optional<Loss> Judge(int waits_for, Clock::time_point now) const;
  // When a rank is waited for in vain: whom the chain of waiting ranks leads to.
  Loss Blame(int waiting_for, Clock::duration waited, Clock::time_point now) const;

 private:
  struct Peer {
    Pulse pulse;
    Clock::time_point heard;
    Clock::time_point left = {};
  };
  std::optional<Loss> Failed() const;
  std::optional<Loss> Lost(int rank) const;
  std::optional<Loss> Silent(Clock::time_point now) const;
  std::optional<Loss> Left(int rank, Clock::time_point now) const;

  int rank_;
  Limits limits_;
  std::vector<Peer> peers_;
  Clock::time_point looked_;
};

}  // namespace thalweg::comm
