// What a generating endpoint makes of a request: what the model is asked, and how its increments
// become the response. No sockets, no threads.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/errors.h"
#include "server/http.h"
#include "server/structure.h"

namespace thalweg::server {

// One increment of one sequence of one request to the model.
struct Delta {
  CompletionOutput output = {};  // what is new
  bool finished = false;         // of the request: nothing comes after it
  std::optional<Error> error = {};
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt
  std::optional<std::vector<std::optional<PositionLogprobs>>> prompt_logprobs = {};
  RequestMetrics times = {};
};

// Tokens of a whole call.
struct Usage {
  int64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
};

// The response of one call. Streaming, text goes to `out` as events; otherwise End writes the body.
class Reply {
 public:
  virtual ~Reply() = default;
  // Before the first increment: events that say that the answer begins.
  virtual void Begin(std::string* out) = 0;
  // An increment of the `request`-th request.
  virtual void Take(size_t request, const Delta& delta, std::string* out) = 0;
  // True when nothing that the model may still say of this sequence changes the response.
  virtual bool Satisfied(size_t request, size_t index) const = 0;
  virtual void End(std::string* out) = 0;
  // In the place of End: an event that says what went wrong, after the head of a stream went out.
  virtual void Fail(const ApiError& error, std::string* out) {
    AppendErrorEvent(error, Dialect::kOpenAi, out);
  }
  virtual Usage usage() const = 0;
  // "stop", "length", "tool_calls", ... of the first sequence, for the log.
  virtual std::string finish_reason() const = 0;
};

struct ModelRequest {
  Prompt prompt = {};
  SamplingParams params = {};   // output_kind is set by whoever submits
  RequestOptions options = {};  // likewise request_id
  // Where so_args ask for what no grammar can enforce, the request goes on without them.
  bool relaxed = false;
  StructureSource source = {};  // of so_args
};

struct Generation {
  std::vector<ModelRequest> requests = {};
  std::unique_ptr<Reply> reply = {};
  bool stream = false;
};

// What a handler makes of a request.
using Outcome = std::variant<HttpResponse, ApiError, Generation>;

}  // namespace thalweg::server
