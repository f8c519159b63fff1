#include "sched/layered_model.h"

#include <algorithm>

#include "base/check.h"
#include "cache/block_hash.h"

namespace thalweg::sched {
namespace {

constexpr int64_t kGroups = cache::kBlockTokens / 2;

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
  x ^= x >> 33;
  return x * 0xc4ceb9fe1a85ec53u;
}

uint64_t Embed(int32_t token, int64_t row) {
  return Mix(static_cast<uint64_t>(token) + 1, static_cast<uint64_t>(row));
}

int32_t Sample(uint64_t output, uint64_t seed, int64_t position) {
  const uint64_t draw = Mix(Mix(output, seed), static_cast<uint64_t>(position));
  return static_cast<int32_t>((draw >> 20) % kVocabulary);
}

// Everything of one sequence at full length: window rows of every layer, groups of two tokens.
struct Naive {
  cache::ReplayReach reach;
  int64_t decoder_from;
  std::vector<std::vector<uint64_t>> window;  // [layer][row]
  std::vector<uint64_t> groups;
  uint64_t group_sum = 0;
  uint64_t half = 0;

  uint64_t Run(int64_t row, int32_t token) {
    uint64_t x = Embed(token, row);
    for (int64_t layer = 0; layer < reach.window_layers; ++layer) {
      if (layer == reach.encoder_layers) {
        if (row % 2 == 1) group_sum += Mix(half, x);
        half = x;
        if (row < decoder_from) return 0;
      }
      auto& rows = window[static_cast<size_t>(layer)];
      rows.resize(static_cast<size_t>(row) + 1);
      rows.back() = x;
      const int64_t floor = layer < reach.encoder_layers ? 0 : decoder_from;
      uint64_t sum = 0;
      for (int64_t r = std::max(floor, row - reach.window + 1); r <= row; ++r) {
        sum = Mix(sum, rows[static_cast<size_t>(r)]);
      }
      x = Mix(Mix(x, sum), layer < reach.encoder_layers ? 0 : group_sum);
    }
    return x;
  }
};

}  // namespace

std::vector<int32_t> NaiveTokens(const cache::ReplayReach& reach, std::vector<int32_t> tokens,
                                 int64_t decoder_from, uint64_t seed, int64_t count) {
  Naive model = {.reach = reach, .decoder_from = decoder_from, .window = {}, .groups = {}};
  model.window.resize(static_cast<size_t>(reach.window_layers));
  const size_t prompt = tokens.size();
  for (size_t row = 0; tokens.size() < prompt + static_cast<size_t>(count); ++row) {
    const uint64_t output = model.Run(static_cast<int64_t>(row), tokens[row]);
    if (row + 1 == tokens.size()) {
      tokens.push_back(Sample(output, seed, static_cast<int64_t>(row) + 1));
    }
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
}

Device::Device(const cache::ReplayReach& reach, int64_t blocks, int64_t checkpoints)
    : reach_(reach),
      blocks_(static_cast<size_t>(blocks), std::vector<uint64_t>(kGroups)),
      saved_(static_cast<size_t>(checkpoints)) {}

step::StepResult Device::Execute(const step::StepPlan& plan, bool fail) {
  step::StepResult result = {.number = plan.number};
  for (const int32_t slot : plan.closes) {
    TW_CHECK(slots_[static_cast<size_t>(slot)].open);
    slots_[static_cast<size_t>(slot)].open = false;
  }
  for (const step::SequenceStart& start : plan.starts) Begin(start);
  if (fail) {
    for (const step::SequenceRows& rows : plan.rows) {
      slots_[static_cast<size_t>(rows.slot)].broken = true;
    }
    result.status = base::Internal("scripted failure of the step");
    return result;
  }
  for (const step::SequenceRows& rows : plan.rows) {
    RunRows(plan, rows, &result);
  }
  return result;
}

void Device::Begin(const step::SequenceStart& start) {
  const auto at = static_cast<size_t>(start.slot);
  if (at >= slots_.size()) slots_.resize(at + 1);
  Slot& slot = slots_[at];
  TW_CHECK(!slot.open);
  slot = {};
  slot.open = true;
  slot.start = start;
  slot.next = start.start;
  slot.state.rings.assign(static_cast<size_t>(reach_.window_layers),
                          std::vector<Row>(static_cast<size_t>(reach_.window + kSlack)));
  slot.state.encoded.assign(kSlack, 0);
  TW_CHECK_EQ(start.start % 2, 0);
  if (start.restore_checkpoint < 0) return;
  const Saved& saved = saved_[static_cast<size_t>(start.restore_checkpoint)];
  TW_CHECK_EQ(saved.position, start.start);
  // Decoder rows that begin elsewhere than this sequence is told are not those it wants.
  if (start.start > start.decoder_from) TW_CHECK_EQ(saved.decoder_from, start.decoder_from);
  slot.state = saved.state;
}

void Device::RunRows(const step::StepPlan& plan, const step::SequenceRows& rows,
                     step::StepResult* result) {
  Slot& slot = slots_[static_cast<size_t>(rows.slot)];
  TW_CHECK(slot.open);
  TW_CHECK_EQ(slot.start.sequence, rows.sequence);
  result->sequences.push_back({.slot = rows.slot, .sequence = rows.sequence});
  if (slot.broken) return;
  for (int32_t b = 0; b < rows.new_blocks_count; ++b) {
    slot.blocks.push_back(plan.blocks[static_cast<size_t>(rows.new_blocks_begin + b)]);
  }
  if (rows.known_tokens) {
    RunKnown(&slot, rows, result);
  } else {
    RunDrafts(&slot, rows, result);
  }
  Save(&slot, rows, &result->sequences.back());
}

void Device::RunKnown(Slot* slot, const step::SequenceRows& rows, step::StepResult* result) {
  TW_CHECK_EQ(slot->next, rows.start);
  uint64_t output = 0;
  for (int64_t row = rows.start; row < rows.start + rows.count; ++row) {
    output = RunRow(slot, row, slot->start.tokens[static_cast<size_t>(row)]);
  }
  slot->next = rows.start + rows.count;
  rows_run_ += rows.count;
  if (!rows.sample) return;
  const step::SampledToken token = Choose(*slot, output, slot->next);
  slot->newest = token.token;
  result->Append(&result->sequences.back(), token);
}

// Two drafts of three are right, by the row's hash. Rows behind a wrong one run on it, as they do
// on a real rank, and are forgotten.
void Device::RunDrafts(Slot* slot, const step::SequenceRows& rows, step::StepResult* result) {
  TW_CHECK_LE(rows.start, slot->next);
  int64_t count = std::min<int64_t>(rows.count, slot->start.end_tokens - 1 - slot->next);
  if (rows.save_at > slot->next) count = std::min(count, rows.save_at - slot->next);
  if (!runs_drafts_) count = std::min<int64_t>(count, 1);
  bool right = true;
  int32_t token = slot->newest;
  const int64_t first = slot->next;
  for (int64_t row = first; row < first + count; ++row) {
    const uint64_t output = RunRow(slot, row, token);
    const step::SampledToken chosen = Choose(*slot, output, row + 1);
    if (right) {
      result->Append(&result->sequences.back(), chosen);
      slot->newest = chosen.token;
      slot->next = row + 1;
    }
    const bool wrong = Mix(output, 3) % 3 == 0;
    token = wrong ? (chosen.token + 1) % kVocabulary : chosen.token;
    right = right && !wrong && chosen.end == step::TokenEnd::kNone;
  }
  result->sequences.back().drafted = static_cast<int32_t>(std::max<int64_t>(0, count - 1));
  rows_run_ += count;
}

void Device::Save(Slot* slot, const step::SequenceRows& rows, step::SequenceResult* result) {
  result->saved = rows.save_at == 0 || rows.save_at == slot->next;
  if (rows.save_checkpoint < 0 || !result->saved) return;
  saved_[static_cast<size_t>(rows.save_checkpoint)] = {slot->next, slot->start.decoder_from,
                                                       slot->state};
}

step::SampledToken Device::Choose(const Slot& slot, uint64_t output, int64_t position) {
  step::SampledToken token = {.token = Sample(output, slot.start.sampling.seed, position)};
  const auto& ends = slot.start.sampling.end_tokens;
  if (std::find(ends.begin(), ends.end(), token.token) != ends.end()) {
    token.end = step::TokenEnd::kEndToken;
  }
  return token;
}

uint64_t Device::RunRow(Slot* slot, int64_t row, int32_t token) {
  uint64_t x = Embed(token, row);
  for (int64_t layer = 0; layer < reach_.window_layers; ++layer) {
    const bool encoder = layer < reach_.encoder_layers;
    if (layer == reach_.encoder_layers) {
      Write(slot, row, x);
      if (row < slot->start.decoder_from) return 0;
    }
    auto& ring = slot->state.rings[static_cast<size_t>(layer)];
    ring[static_cast<size_t>(row) % ring.size()] = {row, x};
    x = Mix(Mix(x, Window(*slot, layer, row)), encoder ? 0 : Compressed(*slot, row));
  }
  return x;
}

uint64_t Device::Window(const Slot& slot, int64_t layer, int64_t row) const {
  const step::SequenceStart& start = slot.start;
  const bool encoder = layer < reach_.encoder_layers;
  const int64_t floor =
      encoder ? start.encoder_floor : std::max(start.decoder_floor, start.decoder_from);
  uint64_t sum = 0;
  for (int64_t r = std::max(floor, row - reach_.window + 1); r <= row; ++r) {
    if (r < 0) continue;
    const std::vector<Row>& ring = slot.state.rings[static_cast<size_t>(layer)];
    const Row& stored = ring[static_cast<size_t>(r) % ring.size()];
    TW_CHECK_EQ(stored.position, r);
    sum = Mix(sum, stored.value);
  }
  return sum;
}

// Whole groups up to and with the row.
uint64_t Device::Compressed(const Slot& slot, int64_t row) const {
  uint64_t sum = 0;
  const int64_t groups = (row + 1) / 2;
  for (int64_t g = 0; g < groups; g += kGroups) {
    const auto& block = blocks_[static_cast<size_t>(slot.blocks[static_cast<size_t>(g / kGroups)])];
    const int64_t count = std::min(kGroups, groups - g);
    for (int64_t i = 0; i < count; ++i) sum += block[static_cast<size_t>(i)];
  }
  return sum;
}

void Device::Write(Slot* slot, int64_t row, uint64_t value) {
  const auto table = static_cast<size_t>(row / cache::kBlockTokens);
  TW_CHECK_LT(table, slot->blocks.size());
  if (row % 2 == 1 && row >= slot->start.write_from) {
    auto& block = blocks_[static_cast<size_t>(slot->blocks[table])];
    block[static_cast<size_t>(row % cache::kBlockTokens / 2)] =
        Mix(slot->state.encoded[static_cast<size_t>((row - 1) % kSlack)], value);
  }
  slot->state.encoded[static_cast<size_t>(row % kSlack)] = value;
}

}  // namespace thalweg::sched
