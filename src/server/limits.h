// Every limit of the server, in one place. Those that an operator may want to change are fields of
// Limits, each with an option (options.cc).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace thalweg::server {

struct Limits {
  size_t body_bytes = 64u << 20;            // of one request: images travel in it
  int64_t requests = 2048;                  // under way at a time; beyond: 429
  int64_t connections = 8192;               // beyond: closed at once
  size_t backlog_bytes = 4u << 20;          // that a slow reader has not taken; beyond: closed
  std::chrono::milliseconds stall{30'000};  // a reader takes nothing for so long: closed
  std::chrono::milliseconds header_time{
      10'000};  // from the first byte of a request to its last header field
  std::chrono::milliseconds body_time{60'000};   // to its last byte
  std::chrono::milliseconds idle{75'000};        // a connection without a request
  std::chrono::milliseconds keep_alive{10'000};  // silence of a stream until a comment is sent
  int64_t key_requests = 0;  // under way for one API key; 0: no limit of its own
  int64_t key_rate = 0;      // requests a minute for one API key; 0: no limit
};

inline constexpr uint32_t kMaxHeaderBytes = 32u << 10;
inline constexpr size_t kMaxMessages = 20'000;
inline constexpr size_t kMaxTools = 1024;
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 1024;
inline constexpr size_t kMaxPrompts = 2048;          // of one /v1/completions
inline constexpr int kMaxJsonDepth = 136;            // a schema of 127 levels within a request
inline constexpr size_t kMaxSchemaBytes = 1u << 20;  // also of a grammar or regex
inline constexpr size_t kMaxCachedChecks = 256;      // schemas of tools that are ready to check
inline constexpr size_t kMaxKeyFileBytes = 1u << 20;
inline constexpr int kRetryAfterSeconds = 1;
// Bodies up to this size, without a grammar to compile, are taken apart on the thread that read
// them: less than a step of a model.
inline constexpr size_t kSmallBodyBytes = 16u << 10;

}  // namespace thalweg::server
