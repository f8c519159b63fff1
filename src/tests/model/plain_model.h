// A forward of the whole model over one whole sequence, written from spec/model.md alone as an
// oracle for the engine: no cache, no ring, no op table, no batch. Attention masks come from
// absolute positions, so bounded replay is nothing but another mask.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/engram_tables.h"
#include "tests/model/plain_math.h"
#include "tests/model/random_config.h"

namespace thalweg::tests::plain {

// mask[t][p] != 0: row t sees the window row of position p. Rows from `cut` on see nothing below it
// (spec/model.md 2.7); cut 0 is plain sliding-window attention.
using Mask = std::vector<std::vector<uint8_t>>;
Mask WindowMask(int64_t tokens, int64_t window, int64_t cut);

struct Output {
  Table logits;                                                 // [tokens, vocab]
  std::map<int64_t, std::vector<std::vector<int64_t>>> chosen;  // index source -> row -> entries
};

class PlainModel {
 public:
  explicit PlainModel(const checkpoint::Checkpoint& checkpoint);
  // The decoder's layers use the mask of `cut`, the encoder's that of 0. Rows below the cut are
  // computed as if there were none; no row from the cut on reads them there.
  Output Run(const Text& text, int64_t cut) const;

 private:
  struct State;
  Table Weight(const std::string& name) const;
  Table LayerWeight(int64_t layer, const std::string& name) const;

  void Embed(State* s) const;
  void Engram(State* s, int64_t layer) const;
  std::vector<int64_t> EngramRows(const State& s, const checkpoint::EngramTable& table,
                                  int64_t t) const;
  Table Collapse(const State& s) const;
  // Predicts the coefficients of a site and returns the sublayer's normalised input.
  Table Enter(State* s, int64_t layer, const std::string& site) const;
  void Leave(State* s, const Table& update) const;
  Table Attention(State* s, int64_t layer, const Table& x) const;
  void Compress(State* s, int64_t layer, const Table& x) const;
  Table Latents(int64_t layer, const Table& x) const;
  void Select(State* s, int64_t layer, const Table& x, const Table& q_low) const;
  std::vector<float> Scores(const State& s, int64_t layer, int64_t t, const float* query,
                            const float* weight) const;
  Table Experts(int64_t layer, const Table& x, const std::vector<uint8_t>& image) const;
  Table Expert(const std::string& prefix, const Table& x, const std::vector<float>& weight) const;

  const checkpoint::Checkpoint& checkpoint_;
  const checkpoint::Config& c_;
  std::vector<checkpoint::LayerPlan> plans_;
  std::vector<checkpoint::EngramTable> tables_;
  std::vector<int32_t> token_map_;
  std::vector<float> plain_frequencies_;
  std::vector<float> yarn_frequencies_;
};

}  // namespace thalweg::tests::plain
