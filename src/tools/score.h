// Teacher-forced log-probabilities of token sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/model.h"
#include "model/replay.h"

namespace thalweg::tools {

struct DocumentScore {
  int64_t tokens =
      0;           // predicted tokens: 2..n of the document, or those whose rows the replay runs
  double nll = 0;  // sum of -log p
  std::vector<float> logprobs;  // [tokens]
  int64_t first_predicted = 1;  // index of the first predicted token
};

// Receives the logits of a run of positions: first position, [positions, vocab].
using LogitSink =
    std::function<Status(int64_t first_position, std::span<const float> logits, int64_t positions)>;

// Scores one document on its own from position 0. With a replay other than full only the rows that
// the decoder runs have logits. A document of fewer than two tokens scores nothing. `sink` may be
// empty.
Result<DocumentScore> ScoreDocument(model::Model& model, std::span<const int32_t> ids,
                                    const model::Replay& replay, const LogitSink& sink);

}  // namespace thalweg::tools
