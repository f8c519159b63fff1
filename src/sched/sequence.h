// One request on its way through the scheduler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cache/block_hash.h"
#include "sched/scheduler.h"

namespace thalweg::sched {

inline constexpr int32_t kNone = -1;

// Waiting -> running -> (leaving -> waiting again | ended). A sequence that leaves or has ended
// gets no more rows; it lets go of its slot and blocks when the last plan that uses it has retired.
enum class Phase : uint8_t {
  kWaiting,
  kRunning,
  kLeaving,  // preempted: will wait again
  kEnded,    // its kFinished event is out; forgotten once nothing under way uses it
};

struct Sequence {
  Request request = {};
  Phase phase = Phase::kWaiting;
  uint64_t arrival = 0;  // 1, 2, ...
  // Waiting and prefill order, larger first: ageing is built in, for the order of two requests by
  // priority + waited / ageing_steps never changes.
  int64_t key = 0;

  std::vector<int32_t> tokens = {};  // prompt, then what was sampled and has come back
  int64_t prompt_tokens = 0;
  int64_t end_tokens = 0;                    // its length when it ends by length
  std::vector<cache::BlockHash> chain = {};  // of the full blocks of `tokens`, as far as needed
  cache::BlockHash root = {};

  // While it waits.
  bool held = false;           // for a prefix that another one is computing
  bool held_for_save = false;  // for its checkpoint, that is; otherwise for its blocks
  cache::BlockHash held_on = {};
  int64_t held_kind = 0;
  int32_t holds = 0;
  uint64_t blocked_at = 0;  // no room was found at this Scheduler::State::room_epoch; 0: not tried
  bool counted = false;     // in the statistics of prompts

  // While it has a slot. Rows below `retired` are computed. Plans under way have at most `ahead`
  // rows more, and bring it to `planned` at least: without drafts, just there.
  int32_t slot = kNone;
  std::vector<int32_t> blocks = {};  // its block table
  int64_t reserved_blocks = 0;       // that admission promised it
  int64_t start = 0;
  int64_t known = 0;  // tokens known at admission: rows below are prefill
  int64_t planned = 0;
  int64_t ahead = 0;
  int64_t retired = 0;
  int64_t decoder_floor = 0;   // where its decoder began: at the cut, or behind it after a replay
  int64_t published = 0;       // blocks that have a name
  int32_t tail_entry = kNone;  // of the last of them
  int64_t promised_end = 0;    // blocks [published, promised_end) stand in the promise index
  // Checkpoints that it means to leave: rows end at these positions (the next one last), and no
  // further apart than the interval somewhere at a block's end.
  std::vector<int64_t> saves = {};
  int64_t save_interval = 0;  // 0: none
  int64_t next_save = 0;      // by interval, here or behind
  int32_t plans_in_flight = 0;
  bool broken = false;  // a step of it failed: nothing that follows may be shared
  bool spared = false;  // it lost a prefill to forced preemption since its last token

  bool prefilling() const { return planned < known; }
  int64_t known_tokens() const { return static_cast<int64_t>(tokens.size()); }
  // Rows that will ever run: the last token is sampled, never run.
  int64_t row_limit() const { return end_tokens - 1; }
  // Where it may be when everything under way has retired, and the next `rows` too.
  int64_t reach(int64_t rows = 0) const { return std::min(row_limit(), retired + ahead + rows); }
  int64_t missing_reservation() const {
    const int64_t missing = reserved_blocks - static_cast<int64_t>(blocks.size());
    return missing > 0 ? missing : 0;
  }
};

}  // namespace thalweg::sched
