// What is behind an LLM: the engine, and the way of one request through it.
#pragma once

#include <thalweg/llm.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "api/requests.h"
#include "engine/engine.h"

namespace thalweg {

struct LLM::State {
  // Shared with streams, which may outlive the LLM; they hold it weakly.
  std::shared_ptr<engine::Engine> engine;
  std::atomic<uint64_t> next_id = 1;

  // Tokenizes, converts and queues. `callback` runs on the engine's output thread. The id is that
  // of options, or a new one.
  Result<std::string> Submit(const Prompt& prompt, const SamplingParams& params,
                             const RequestOptions& options, StreamCallback callback);
};

}  // namespace thalweg
