#include "tests/device/pretend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/backends.h"
#include "sampling/choose.h"

namespace thalweg::tests {
namespace {

using kernels::ChooseRow;
using tensor::Stream;

struct Download {
  void* to = nullptr;
  std::vector<std::byte> bytes = {};
};

struct Frame {
  std::deque<std::vector<std::byte>> lists = {};
  std::vector<Download> downloads = {};
};

struct PretendedQueue {
  std::deque<Frame> under_way = {};
  std::deque<Frame> done = {};  // kernels of a real device may read the newest still
  Frame frame = {};
  bool asked = false;  // whether the oldest step is done, once

  void Finish() {
    for (const Download& d : under_way.front().downloads)
      std::memcpy(d.to, d.bytes.data(), d.bytes.size());
    done.push_back(std::move(under_way.front()));
    under_way.pop_front();
    if (done.size() > 4) done.pop_front();
    asked = false;
  }
};

PretendedQueue& QueueOf(const Stream& stream) {
  return *static_cast<PretendedQueue*>(stream.device);
}

void Copy(const Stream& /*stream*/, void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

const void* List(const Stream& stream, const void* host, int64_t bytes) {
  const auto* from = static_cast<const std::byte*>(host);
  return QueueOf(stream).frame.lists.emplace_back(from, from + bytes).data();
}

void DownloadLater(const Stream& stream, void* pinned, const void* from, int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  QueueOf(stream).frame.downloads.push_back({pinned, {begin, begin + bytes}});
}

void End(const Stream& stream) {
  PretendedQueue& queue = QueueOf(stream);
  queue.under_way.push_back(std::exchange(queue.frame, {}));
}

Status Wait(const Stream& stream) {
  if (!QueueOf(stream).under_way.empty()) QueueOf(stream).Finish();
  return {};
}

// Every other time.
bool Done(const Stream& stream) {
  PretendedQueue& queue = QueueOf(stream);
  return queue.under_way.empty() || std::exchange(queue.asked, !queue.asked);
}

Status Synchronize(const Stream& stream) {
  while (!QueueOf(stream).under_way.empty()) QueueOf(stream).Finish();
  return {};
}

const tensor::StepQueue& Steps() {
  static const tensor::StepQueue steps{
      .begin = [](const Stream& stream) { QueueOf(stream).frame = {}; },
      .list = List,
      .end = End,
      .done = Done,
      .wait = Wait,
      .allocate_pinned = [](int64_t bytes) { return ::operator new(static_cast<size_t>(bytes)); },
      .release_pinned = [](void* memory) { ::operator delete(memory); },
      .download = DownloadLater};
  return steps;
}

const tensor::Memory& PretendedMemory() {
  static const tensor::Memory memory{
      .name = "pretended",
      .host = false,
      .allocate = tensor::HostMemory().allocate,
      .release = tensor::HostMemory().release,
      .free_bytes = tensor::HostMemory().free_bytes,
      .upload = Copy,
      .download = Copy,
      .copy = Copy,
      .open_queue = []() -> void* { return new PretendedQueue; },
      .close_queue = [](void* queue) { delete static_cast<PretendedQueue*>(queue); },
      .synchronize = Synchronize,
      .steps = &Steps()};
  return memory;
}

std::vector<int32_t> KnownIds(const int32_t* ids, const int32_t* newest, int64_t count) {
  std::vector<int32_t> known(ids, ids + count);
  for (int32_t& id : known) id = id < 0 ? newest[-1 - id] : id;
  return known;
}

void Embed(const kernels::EmbedParams& p) {
  const std::vector<int32_t> ids = KnownIds(p.ids, p.newest, p.rows);
  kernels::EmbedParams known = p;
  known.ids = ids.data();
  kernels::CpuOps().embed(known);
}

void Markov(const kernels::MarkovParams& p) {
  const std::vector<int32_t> ids = KnownIds(p.previous, p.newest, p.rows);
  kernels::MarkovParams known = p;
  known.previous = ids.data();
  kernels::CpuOps().markov(known);
}

void EngramHash(const kernels::EngramHashParams& p) {
  const int64_t columns = (p.orders - 1) * p.heads;
  for (int64_t at = 0; at < p.rows * p.tables * columns; ++at) {
    const int64_t column = at % columns, row = at / columns % p.rows, table = at / columns / p.rows;
    uint64_t hash = 0;
    bool blocked = false;
    for (int64_t s = 0; s <= 1 + column / p.heads; ++s) {
      const int32_t listed = p.look_back[row * p.orders + s];
      const int32_t id = listed < -1 ? p.token_map[p.newest[-2 - listed]] : listed;
      blocked = blocked || id < 0;
      hash ^= static_cast<uint64_t>(blocked ? p.pad : id) * p.multipliers[table * p.orders + s];
    }
    const int64_t place = table * columns + column;
    p.out[table * p.table_stride + row * columns + column] =
        static_cast<int64_t>(hash % p.primes[place]) + p.offsets[place];
  }
}

int32_t TokenOf(const kernels::ChooseParams& p, const ChooseRow& choice, const float* row) {
  std::vector<float> logits(row, row + p.vocab);
  const sampling::RowSummary raw = sampling::Summarise(logits);
  if (raw.nan || !std::isfinite(raw.best.logit)) return kernels::kNotFinite;
  const uint32_t* mask = choice.mask < 0 ? nullptr : p.masks + choice.mask * ((p.vocab + 31) / 32);
  for (size_t t = 0; mask != nullptr && t < logits.size(); ++t) {
    if ((mask[t / 32] >> (t % 32) & 1) == 0) logits[t] = -INFINITY;
  }
  const sampling::Entry best = sampling::Summarise(logits).best;
  if (best.logit == -INFINITY) return kernels::kNothingLeft;
  sampling::ChooseBuffers buffers;
  step::SamplingParams params;
  params.temperature = choice.temperature;
  params.seed = choice.seed;
  return sampling::Choose(logits, best, params, choice.position, &buffers);
}

void Choose(const kernels::ChooseParams& p) {
  for (int64_t row = 0; row < p.rows; ++row) {
    const ChooseRow& choice = p.choices[row];
    const bool chosen = choice.slot != ChooseRow::kNotChosen;
    const int32_t token =
        chosen ? TokenOf(p, choice, p.logits + row * p.stride) : kernels::kNoToken;
    if (p.tokens != nullptr) p.tokens[row] = token;
    if (choice.slot >= 0) p.newest[choice.slot] = std::max(token, 0);
  }
}

void Accept(const kernels::AcceptParams& p) {
  for (int64_t i = 0; i < p.blocks_count; ++i) {
    const kernels::DraftedRows& block = p.blocks[i];
    const int32_t* chosen = p.tokens + block.first_row;
    int32_t accepted = 0;
    while (accepted + 1 < block.rows && chosen[accepted] == p.newest[block.drafts + accepted])
      ++accepted;
    p.accepted[i] = accepted;
    p.newest[block.slot] = std::max(chosen[accepted], 0);
  }
}

void Advance(const kernels::AdvanceParams& p) {
  const int64_t half = p.rotation.rope_dim / 2;
  const auto values = static_cast<size_t>(p.block * half);
  for (int64_t s = 0; s < p.sequences; ++s) {
    const int64_t by = p.of[s] < 0 ? 0 : p.accepted[p.of[s]];
    for (int64_t i = 0; i < p.block; ++i) {
      p.window_end[s * p.block + i] += by;
      p.choices[i * p.sequences + s].position += by;
    }
    for (int64_t stage = 0; stage < p.stages; ++stage)
      p.window_keys[stage * p.sequences + s].chunk_begin += by;
    const int64_t from = (s * p.ahead_rows + by) * half, to = s * p.block * half;
    std::copy_n(p.ahead.cos + from, values, const_cast<float*>(p.rotation.cos) + to);
    std::copy_n(p.ahead.sin + from, values, const_cast<float*>(p.rotation.sin) + to);
  }
}

}  // namespace

const kernels::Ops& PretendedDevice() {
  static const kernels::Ops ops = [] {
    kernels::Ops made = kernels::CpuOps();
    made.name = "pretended";
    made.memory = &PretendedMemory();
    made.embed = Embed;
    made.markov = Markov;
    made.engram_hash = EngramHash;
    made.choose = Choose;
    made.accept = Accept;
    made.advance = Advance;
    return made;
  }();
  return ops;
}

const kernels::ExchangeOps& PretendedExchange() { return kernels::HostExchangeOps(); }
const kernels::RoutedExchange& PretendedRouting() { return kernels::ReferenceRoutedExchange(); }
bool PretendedReachesAllWeights() { return true; }

}  // namespace thalweg::tests
