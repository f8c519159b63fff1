#include "comm/liveness.h"

#include <fmt/format.h>

#include "base/check.h"

namespace thalweg::comm {
namespace {

// A message that was sent before its rank left is there by then.
constexpr Milliseconds kLeaveGrace{500};

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Liveness::Liveness(int rank, int size, Limits limits, Clock::time_point now)
    : rank_(rank), limits_(limits), peers_(static_cast<size_t>(size), {{}, now}), looked_(now) {}

void Liveness::Heard(int rank, const Pulse& pulse, Clock::time_point now) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.heard = now;
  // Last words stay: a beat that was sent before may come in after them.
  const Health health = peer.pulse.health;
  if (health != Health::kLeft && pulse.health == Health::kLeft) peer.left = now;
  if (health != Health::kFailed && health != Health::kLostRank) peer.pulse = pulse;
}

void Liveness::LookAround(Clock::time_point now) {
  if (now - looked_ > limits_.silence / 2)
    for (Peer& peer : peers_) peer.heard = now;
  looked_ = now;
}

std::optional<Loss> Liveness::Judge(int waits_for, Clock::time_point now) const {
  if (auto loss = Failed()) return loss;
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r)
    if (auto loss = Lost(r)) return loss;
  if (auto loss = Silent(now)) return loss;
  return Left(waits_for, now);
}

std::optional<Loss> Liveness::Failed() const {
  for (size_t r = 0; r < peers_.size(); ++r) {
    const Pulse& pulse = peers_[r].pulse;
    if (pulse.health == Health::kFailed)
      return Loss{static_cast<int>(r), fmt::format("rank {} failed: {}", r, pulse.Text())};
  }
  return std::nullopt;
}

std::optional<Loss> Liveness::Lost(int rank) const {
  const Pulse& pulse = peers_[static_cast<size_t>(rank)].pulse;
  if (pulse.health != Health::kLostRank) return std::nullopt;
  return Loss{pulse.rank, fmt::format("{} (found by rank {})", pulse.Text(), rank), true};
}

std::optional<Loss> Liveness::Silent(Clock::time_point now) const {
  if (limits_.silence.count() == 0) return std::nullopt;
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (static_cast<int>(r) == rank_ || peers_[r].pulse.health == Health::kLeft) continue;
    if (now - peers_[r].heard <= limits_.silence) continue;
    return Loss{static_cast<int>(r),
                fmt::format("rank {} is gone: nothing heard of it for {:.1f} s (killed, stopped, "
                            "out of memory or cut off)",
                            r, Seconds(now - peers_[r].heard))};
  }
  return std::nullopt;
}

std::optional<Loss> Liveness::Left(int rank, Clock::time_point now) const {
  if (rank < 0) return std::nullopt;
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.pulse.health != Health::kLeft || now - peer.left < kLeaveGrace) return std::nullopt;
  return Loss{rank, fmt::format("rank {} has left the group", rank)};
}

Loss Liveness::Blame(int waiting_for, Clock::duration waited, Clock::time_point now) const {
  int culprit = waiting_for;
  for (size_t hops = 0; hops < peers_.size(); ++hops) {
    const int next = peers_[static_cast<size_t>(culprit)].pulse.rank;
    if (next < 0 || next == rank_ || next >= static_cast<int>(peers_.size())) break;
    culprit = next;
  }
  const Peer& peer = peers_[static_cast<size_t>(culprit)];
  return {culprit, fmt::format("waited {:.1f} s for rank {}, which does not come (last heard of "
                               "{:.1f} s ago, its last operation: {}, number {})",
                               Seconds(waited), culprit, Seconds(now - peer.heard),
                               NameOf(peer.pulse.operation), peer.pulse.number)};
}

}  // namespace thalweg::comm
