#include "engine/rank.h"

#include <algorithm>

namespace thalweg::engine {

void DescribeRank(model::Model& model, sched::SchedulerOptions* options) {
  const checkpoint::Config& c = model.config();
  options->max_sequences = model.options().max_sequences;
  options->max_rows = model.options().max_rows;
  const int64_t asked = options->context_tokens;
  options->context_tokens =
      asked > 0 ? std::min(asked, c.max_position_embeddings) : c.max_position_embeddings;
  options->blocks = model.pool().blocks();
  options->checkpoints = model.options().checkpoints;
  options->reach = {.window = c.sliding_window,
                    .encoder_layers = c.DecoderBegin(),
                    .window_layers = c.num_hidden_layers,
                    .draft = model.has_draft()};
}

}  // namespace thalweg::engine
