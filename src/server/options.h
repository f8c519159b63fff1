// Options of `thalweg serve` beside those of the engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "server/limits.h"

namespace thalweg::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one
  int io_threads = 2;
  std::string served_name = {};  // empty: that of the model
  bool any_model = false;        // requests may call it anything
  std::string api_keys = {};     // file; empty: nobody is asked
  bool open_metrics = true;      // /metrics and /load answer without a key
  std::string cors_origin = {};  // empty: no cross-origin pages
  std::string access_log = {};
  bool log_bodies = false;
  double grace_seconds = 30;         // for what is under way after SIGTERM
  bool thinking = true;              // of chats that do not say
  bool keep_reasoning = true;        // of earlier turns, in prompts
  bool calls_in_reasoning = true;    // a block of calls ends the reasoning
  bool check_arguments = false;      // of calls of all tools, not of strict ones alone
  int64_t repeat_turns = 1'000'000;  // tokens of answers with calls that prompts repeat
  bool playground = true;
  Limits limits = {};

  static std::vector<base::OptionRow> Rows();
  // `values` has been resolved against Rows().
  static ServerOptions From(const base::OptionValues& values);
};

}  // namespace thalweg::server
