// What all exchanges of a server share.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "api/served_model.h"
#include "server/access_log.h"
#include "server/admission.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/tool_checks.h"
#include "text/sampled_turns.h"

namespace thalweg::server {

struct Services {
  Services(api::ServedModel* served, ServerOptions given)
      : model(served),
        options(std::move(given)),
        admission(options.limits.requests),
        metrics(served->name()),
        turns(static_cast<size_t>(options.repeat_turns)) {}

  api::ServedModel* model;
  ServerOptions options;
  Admission admission;
  Metrics metrics;
  // Answers with calls, so that the prompts behind them repeat their tokens (docs/chat.md).
  text::SampledTurns turns;
  CheckCache checks = {};
  std::unique_ptr<KeyFile> keys = {};  // null: nobody is asked for a key
  std::unique_ptr<AccessLog> log = {};
  // Takes large requests apart and compiles grammars, so that streams do not wait for it.
  boost::asio::thread_pool workers{2};
  std::atomic<bool> draining = false;
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
};

}  // namespace thalweg::server
