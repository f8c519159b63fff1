#include "tools/synth.h"

#include <fmt/format.h>

#include "checkpoint/synth.h"

namespace thalweg::tools {

Status Synth(const SynthOptions& options) {
  TW_ASSIGN(const checkpoint::Config config, checkpoint::Config::Load(options.config));
  checkpoint::SynthesisOptions synthesis;
  synthesis.seed = options.seed;
  synthesis.max_shard_bytes = options.max_shard_bytes;
  TW_ASSIGN(const checkpoint::SynthesisSummary summary,
            checkpoint::WriteSynthetic(config, options.out, synthesis));
  *options.report << fmt::format("{}: {} tensors, {} bytes in {} shards, seed {}\n",
                                 options.out.string(), summary.tensors, summary.bytes,
                                 summary.shards, options.seed);
  return {};
}

}  // namespace thalweg::tools
