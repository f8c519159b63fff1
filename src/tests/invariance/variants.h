// One text read in many ways: the rows around it, the pieces it comes in, threads and layout of
// weights vary; its logits and its draft must not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/ops.h"

namespace thalweg::tests {

// How the text is fed: `first` rows in one step, then `width` rows a step, beside `neighbours`
// other sequences of one row a step each.
struct Variant {
  int64_t first = 0;
  int64_t width = 1;
  int64_t neighbours = 0;
  int threads = 1;
  bool packed = false;
};

// Batches of 1, 7 and 64, every verify width from 1 to 8, pieces of other lengths, one to four
// threads, weights packed and as stored.
std::vector<Variant> AllVariants();
std::string Describe(const Variant& variant);

struct Readings {
  std::vector<float> logits;  // [text, vocab]
  std::vector<float> draft;   // [block, vocab], behind the text
};

// The whole text in one step on one thread, from weights as stored.
Readings ReadAtOnce(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops);
Readings Read(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops,
              const Variant& variant);

// Rows of the text, and of the draft, whose bits differ.
int64_t DifferentRows(const Readings& a, const Readings& b, int64_t vocab);

}  // namespace thalweg::tests
