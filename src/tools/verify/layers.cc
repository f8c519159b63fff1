// The layer-local stage: one forward over a dump's prompt, fed at every layer.
#include <fmt/format.h>

#include "tools/verify/layer_probe.h"

namespace thalweg::tools {

Status VerifyLayers(VerifyContext& context, const std::string& dump) {
  TW_ASSIGN(const auto ids, PromptIds(context.golden, dump));
  VerifySequence sequence(context.model);
  LayerProbe probe(context, dump, static_cast<int64_t>(ids.size()), sequence.id());
  TW_TRY(sequence.Append(ids, model::LogitRows::kNone, &probe).status());
  return probe.status();
}

}  // namespace thalweg::tools
