// One HTTP GET by libcurl, and the loop that runs many at once on the caller's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::hub {

// Status line and headers of the last answer in a chain of redirects.
struct AnswerHead {
  long status = 0;
  std::optional<uint64_t> content_length = {};
  std::optional<uint64_t> range_begin = {};  // of Content-Range
  std::optional<int64_t> retry_after_seconds = {};
  std::string error_code = {};     // X-Error-Code: RepoNotFound, GatedRepo, ...
  std::string error_message = {};  // X-Error-Message
};

// Adds one header line to `head`; a status line starts it anew.
void AddHeaderLine(std::string_view line, AnswerHead* head);

struct TransferRequest {
  std::string url;
  std::string token =
      {};              // Authorization: Bearer; libcurl drops it when a redirect leaves the host
  uint64_t begin = 0;  // > 0: Range: bytes=begin-
  int64_t stall_seconds = 60;
};

class Transfer {
 public:
  // Takes body bytes of a 200 or 206; false stops the transfer.
  using TakeBytes = std::function<bool(const AnswerHead&, std::string_view)>;

  Transfer(TransferRequest request, TakeBytes take);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  const AnswerHead& head() const;
  const std::string& error_body() const;  // the beginning of any other answer's body
  bool finished() const;
  int curl_code() const;                // CURLcode, once finished
  std::string transport_error() const;  // libcurl's words for it
  bool taker_stopped() const;           // `take` returned false
  std::string host() const;             // of the address asked for, for messages

 private:
  friend class TransferLoop;
  struct State;
  std::unique_ptr<State> state_;
};

class TransferLoop {
 public:
  TransferLoop();
  ~TransferLoop();
  TransferLoop(const TransferLoop&) = delete;
  TransferLoop& operator=(const TransferLoop&) = delete;

  // The transfer must outlive the loop or be removed before.
  void Add(Transfer* transfer);
  void Remove(Transfer* transfer);
  // Moves data; waits up to wait_ms for some. Returns those that have finished, removed already.
  std::vector<Transfer*> Step(int wait_ms);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thalweg::hub
