// Engram: hashed n-gram memory (spec/model.md 2.3).
#include <algorithm>

#include "model/run.h"

namespace thalweg::model {
namespace {

// Compressed ids of the tokens before one sequence's rows and of the rows themselves.
class LookBack {
 public:
  LookBack(Run& run, const SequenceRows& s)
      : reach_(run.config().engram_max_ngram_size - 1), start_(s.start), ids_(run.lists.look_back) {
    ids_.clear();
    for (int64_t p = s.start - reach_; p < s.start; ++p)
      ids_.push_back(p < 0 ? kDeadToken : run.pool.History(s.id, p));
    for (int64_t r = s.first_row; r < s.first_row + s.rows; ++r) {
      const auto i = static_cast<size_t>(r);
      if (run.batch.image[i] != 0) {
        ids_.push_back(kDeadToken);
      } else if (run.batch.ids[i] < 0) {  // a device knows it; Model::Learn tells it here
        ids_.push_back(run.batch.ids[i] - 1);
      } else {
        ids_.push_back(run.parts.token_map[static_cast<size_t>(run.batch.ids[i])]);
      }
    }
  }

  int32_t At(int64_t position) const {
    return ids_[static_cast<size_t>(position - start_ + reach_)];
  }

 private:
  int64_t reach_;
  int64_t start_;
  std::vector<int32_t>& ids_;
};

// Table rows of one token, order-major: one hash per order, one modulus per head. A lookback that
// is dead, or behind a dead one, counts as padding.
void HashToken(const checkpoint::Config& c, const checkpoint::EngramTable& table,
               const LookBack& ids, int64_t position, int32_t pad, int64_t* out) {
  uint64_t hash = 0;
  bool blocked = false;
  for (int64_t s = 0; s < c.engram_max_ngram_size; ++s) {
    const int32_t id = ids.At(position - s);
    blocked = blocked || id == kDeadToken;
    hash ^= static_cast<uint64_t>(blocked ? pad : id) *
            static_cast<uint64_t>(table.multipliers[static_cast<size_t>(s)]);
    if (s == 0) continue;
    for (int64_t head = 0; head < c.engram_n_heads; ++head) {
      const auto column = static_cast<size_t>((s - 1) * c.engram_n_heads + head);
      *out++ = static_cast<int64_t>(hash % static_cast<uint64_t>(table.primes[column])) +
               table.offsets[column];
    }
  }
}

}  // namespace

namespace {

// By the backend: the host makes the ids that each row looks back on, as far as it knows them.
void HashOnBackend(Run& run) {
  const checkpoint::Config& c = run.config();
  const EngramConstants& constants = run.parts.engram;
  std::vector<int32_t>& look_backs = run.lists.look_backs;
  look_backs.clear();
  for (const SequenceRows& s : run.batch.sequences) {
    const LookBack ids(run, s);
    for (int64_t p = s.start; p < s.end(); ++p) {
      for (int64_t back = 0; back < c.engram_max_ngram_size; ++back)
        look_backs.push_back(ids.At(p - back));
    }
    for (int64_t p = s.start; p < s.end(); ++p)
      run.pool.History(s.id, p) = std::max(ids.At(p), kDeadToken);
  }
  run.ops().engram_hash({.stream = run.stream(),
                         .rows = run.rows(),
                         .orders = c.engram_max_ngram_size,
                         .heads = c.engram_n_heads,
                         .tables = static_cast<int64_t>(run.parts.tables.size()),
                         .look_back = run.List(look_backs),
                         .newest = run.newest,
                         .token_map = constants.token_map,
                         .multipliers = constants.multipliers,
                         .primes = constants.primes,
                         .offsets = constants.offsets,
                         .pad = run.parts.token_map[static_cast<size_t>(c.engram_pad_token_id)],
                         .table_stride = run.ws.max_rows * c.EngramColumns(),
                         .out = run.ws.engram_rows});
}

}  // namespace

void HashEngramRows(Run& run) {
  const checkpoint::Config& c = run.config();
  if (!c.HasEngram()) return;
  if (run.parts.options.ops->engram_hash != nullptr) return HashOnBackend(run);
  const std::vector<checkpoint::EngramTable>& tables = run.parts.tables;
  const int64_t columns = c.EngramColumns();
  const int32_t pad = run.parts.token_map[static_cast<size_t>(c.engram_pad_token_id)];
  std::vector<int64_t>& out = run.lists.engram_rows;
  out.resize(static_cast<size_t>(static_cast<int64_t>(tables.size()) * run.rows() * columns));
  for (const SequenceRows& s : run.batch.sequences) {
    const LookBack ids(run, s);
    for (int64_t i = 0; i < s.rows; ++i) {
      for (size_t t = 0; t < tables.size(); ++t) {
        const int64_t at = (static_cast<int64_t>(t) * run.rows() + s.first_row + i) * columns;
        HashToken(c, tables[t], ids, s.start + i, pad, out.data() + at);
      }
    }
    for (int64_t p = s.start; p < s.end(); ++p) run.pool.History(s.id, p) = ids.At(p);
  }
}

void KeepEngramRows(Run& run, int64_t before, const std::vector<int64_t>& kept) {
  if (!run.config().HasEngram() || static_cast<int64_t>(kept.size()) == before) return;
  const int64_t columns = run.config().EngramColumns();
  if (run.parts.options.ops->engram_hash != nullptr) {
    const int64_t* list = run.List(kept);
    for (size_t t = 0; t < run.parts.tables.size(); ++t) {
      run.ops().compact_rows(
          {.stream = run.stream(),
           .count = static_cast<int64_t>(kept.size()),
           .bytes = columns * static_cast<int64_t>(sizeof(int64_t)),
           .kept = list,
           .data = run.ws.engram_rows + static_cast<int64_t>(t) * run.ws.max_rows * columns,
           .scratch = run.ws.move_scratch});
    }
    return;
  }
  auto to = run.lists.engram_rows.begin();
  for (size_t t = 0; t < run.parts.tables.size(); ++t) {
    for (const int64_t row : kept) {
      const auto from =
          run.lists.engram_rows.begin() + (static_cast<int64_t>(t) * before + row) * columns;
      to = std::copy_n(from, columns, to);
    }
  }
  run.lists.engram_rows.erase(to, run.lists.engram_rows.end());
}

void ApplyEngram(Run& run, int layer) {
  const checkpoint::Config& c = run.config();
  const EngramWeights& w = *run.layer(layer).engram;
  const int64_t columns = c.EngramColumns();
  const bool made = run.parts.options.ops->engram_hash != nullptr;
  const int64_t table = run.plan(layer).engram_index;
  int64_t* rows = made ? run.ws.engram_rows + table * run.ws.max_rows * columns
                       : run.lists.engram_rows.data() + table * run.rows() * columns;
  if (made) {
    Observe(run, layer, point::kEngramRows, rows, {run.rows(), columns});
  } else {
    ObserveHost(run, layer, point::kEngramRows, rows, {run.rows(), columns});
  }
  run.ops().engram_gather({.stream = run.stream(),
                           .rows = run.rows(),
                           .columns = columns,
                           .width = c.engram_head_dim,
                           .table_rows = made ? rows : run.List(rows, run.rows() * columns),
                           .made = made,
                           .codes = w.codes,
                           .scales = w.scales,
                           .quantise = run.parts.options.activation_format,
                           .out = run.ws.engram_z});
  const kernels::Projection projection{.weight = w.wkv, .out_bf16 = run.ws.engram_kv};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = columns * c.engram_head_dim,
                    .x = run.ws.engram_z,
                    .projections = {&projection, 1}});
  run.ops().engram_gate({.stream = run.stream(),
                         .rows = run.rows(),
                         .streams_n = c.hc_mult,
                         .hidden = c.hidden_size,
                         .kv = run.ws.engram_kv,
                         .q_weight = w.q_weight,
                         .k_weight = w.k_weight,
                         .norm_eps = c.rms_norm_eps,
                         .dead = run.listed.image,
                         .streams = run.ws.streams});
  Observe(run, layer, point::kEngramStreams, run.ws.streams,
          {run.rows(), c.hc_mult, c.hidden_size});
}

}  // namespace thalweg::model
