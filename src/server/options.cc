#include "server/options.h"

namespace thalweg::server {
namespace {

using base::OptionKind;
using base::OptionRow;

std::vector<OptionRow> AddressRows() {
  return {
      {.name = "host",
       .help = "address to listen on; anything but loopback wants --api-keys and a proxy with TLS",
       .fallback = "127.0.0.1",
       .value_name = "ADDRESS"},
      {.name = "port",
       .kind = OptionKind::kInteger,
       .help = "port to listen on; 0: any that is free",
       .fallback = "8000",
       .most = 65535},
      {.name = "io-threads",
       .kind = OptionKind::kInteger,
       .help = "threads for connections",
       .fallback = "2",
       .least = 1,
       .most = 64},
      {.name = "served-name", .help = "what requests call the model; default: its own name"},
      {.name = "any-model",
       .kind = OptionKind::kFlag,
       .help = "requests may call the model by any name",
       .fallback = "false"},
      {.name = "cors-origin",
       .help = "pages of this origin may call the server; * for all; default: none",
       .value_name = "ORIGIN"},
      {.name = "playground",
       .kind = OptionKind::kFlag,
       .help = "serve the chat page at /",
       .fallback = "true"},
  };
}

std::vector<OptionRow> KeyRows() {
  return {
      {.name = "api-keys",
       .help = "file of API keys, read again when it changes (docs/server.md); default: nobody is "
               "asked for one",
       .value_name = "FILE"},
      {.name = "key-requests",
       .kind = OptionKind::kInteger,
       .help = "requests that one key may have under way; 0: no limit",
       .fallback = "0",
       .most = 1e9},
      {.name = "key-rate",
       .kind = OptionKind::kInteger,
       .help = "requests that one key may make in a minute; 0: no limit",
       .fallback = "0",
       .most = 1e9},
      {.name = "open-metrics",
       .kind = OptionKind::kFlag,
       .help = "/metrics and /load answer without a key",
       .fallback = "true"},
  };
}

std::vector<OptionRow> LogRows() {
  return {
      {.name = "access-log",
       .help = "one JSON line for each request: a file, or - for stderr; default: none",
       .value_name = "FILE"},
      {.name = "log-bodies",
       .kind = OptionKind::kFlag,
       .help = "requests' bodies, prompts in them, are part of the access log",
       .fallback = "false"},
  };
}

std::vector<OptionRow> LimitRows() {
  return {
      {.name = "max-requests",
       .kind = OptionKind::kInteger,
       .help = "requests under way at a time; beyond: 429",
       .fallback = "2048",
       .least = 1,
       .most = 1e6},
      {.name = "max-body-bytes",
       .kind = OptionKind::kInteger,
       .help = "largest body of a request",
       .fallback = "67108864",
       .least = 1024,
       .most = 1e10},
      {.name = "stall-seconds",
       .kind = OptionKind::kReal,
       .help = "a reader that takes nothing for so long is cut off",
       .fallback = "30",
       .least = 0.1,
       .most = 1e5},
      {.name = "idle-seconds",
       .kind = OptionKind::kReal,
       .help = "a connection without a request is closed after so long",
       .fallback = "75",
       .least = 0.1,
       .most = 1e5},
      {.name = "keep-alive-seconds",
       .kind = OptionKind::kReal,
       .help = "a stream that has been silent for so long gets a comment",
       .fallback = "10",
       .least = 0.1,
       .most = 1e5},
      {.name = "grace",
       .kind = OptionKind::kReal,
       .help = "seconds for what is under way after SIGTERM or Ctrl-C; a second signal ends them",
       .fallback = "30",
       .most = 1e5},
  };
}

std::vector<OptionRow> ChatRows() {
  return {
      {.name = "thinking",
       .kind = OptionKind::kFlag,
       .help = "chats that do not say reason first",
       .fallback = "true"},
      {.name = "keep-reasoning",
       .kind = OptionKind::kFlag,
       .help = "reasoning of earlier turns stays in prompts, which then only grow; false: it is "
               "dropped before the last user turn",
       .fallback = "true"},
      {.name = "calls-in-reasoning",
       .kind = OptionKind::kFlag,
       .help = "a block of calls inside the reasoning ends it and counts; false: it is a part of "
               "the reasoning",
       .fallback = "true"},
      {.name = "check-arguments",
       .kind = OptionKind::kFlag,
       .help = "calls of all tools are checked against their schemas, not those of strict ones "
               "alone",
       .fallback = "false"},
      {.name = "repeat-turns",
       .kind = OptionKind::kInteger,
       .help = "tokens of answers with calls that later prompts repeat as they were sampled; 0: "
               "none are remembered",
       .fallback = "1000000",
       .most = 1e9},
  };
}

std::chrono::milliseconds Duration(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Limits LimitsFrom(const base::OptionValues& values) {
  Limits limits;
  limits.requests = values.Integer("max-requests");
  limits.body_bytes = static_cast<size_t>(values.Integer("max-body-bytes"));
  limits.stall = Duration(values.Real("stall-seconds"));
  limits.idle = Duration(values.Real("idle-seconds"));
  limits.keep_alive = Duration(values.Real("keep-alive-seconds"));
  limits.key_requests = values.Integer("key-requests");
  limits.key_rate = values.Integer("key-rate");
  return limits;
}

}  // namespace

std::vector<OptionRow> ServerOptions::Rows() {
  std::vector<OptionRow> rows = AddressRows();
  for (const auto& more : {KeyRows(), LogRows(), LimitRows(), ChatRows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

ServerOptions ServerOptions::From(const base::OptionValues& values) {
  ServerOptions options;
  options.host = values.Text("host");
  options.port = static_cast<int>(values.Integer("port"));
  options.io_threads = static_cast<int>(values.Integer("io-threads"));
  options.served_name = values.Text("served-name");
  options.any_model = values.Flag("any-model");
  options.cors_origin = values.Text("cors-origin");
  options.playground = values.Flag("playground");
  options.api_keys = values.Text("api-keys");
  options.open_metrics = values.Flag("open-metrics");
  options.access_log = values.Text("access-log");
  options.log_bodies = values.Flag("log-bodies");
  options.grace_seconds = values.Real("grace");
  options.thinking = values.Flag("thinking");
  options.keep_reasoning = values.Flag("keep-reasoning");
  options.calls_in_reasoning = values.Flag("calls-in-reasoning");
  options.check_arguments = values.Flag("check-arguments");
  options.repeat_turns = values.Integer("repeat-turns");
  options.limits = LimitsFrom(values);
  return options;
}

}  // namespace thalweg::server
