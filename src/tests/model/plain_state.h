// What one run of the independent forward carries from layer to layer.
#pragma once

#include "tests/model/plain_model.h"

namespace thalweg::tests::plain {

struct PlainModel::State {
  const Text& text;
  int64_t tokens = 0;
  int64_t cut = 0;
  Table streams = {};   // [tokens, n * hidden]
  Table mix = {};       // [tokens, n]
  Table next_mix = {};  // of the site under way
  Table post = {};      // [tokens, n]
  Table comb = {};      // [tokens, n * n]
  Table entries = {};   // compressed rows of the newest owner, [groups, head_dim]
  Table keys = {};      // index keys of the newest owner, [groups, index_head_dim]
  std::vector<std::vector<int64_t>> chosen = {};  // of the newest index source, per row
  std::vector<std::vector<int64_t>> pool = {};    // candidate blocks per row
  Output out = {};
};

}  // namespace thalweg::tests::plain
