// Answers written beforehand, for a model that needs no weights (fake_model.h; docs/server.md has
// the format).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::api {

struct FakePiece {
  std::string text = {};               // special tokens may be spelled in it
  std::chrono::microseconds delay{0};  // before it
};

// stamped: the first increment is the number of microseconds of the monotonic clock at which the
// request was taken, and a space. Pieces are due at their delays from then on.
struct FakeAnswer {
  std::string match = {};  // a part of the prompt, special tokens spelled; empty: any prompt
  std::vector<FakePiece> pieces = {};
  int64_t times = 1;                   // the pieces are said so often
  bool whole_pieces = false;           // a piece comes at once; otherwise token by token
  bool length = false;                 // ends as if cut by max_tokens
  bool stamped = false;                // begins with the time, for measurements
  int64_t cached_tokens = 0;           // said to have come from the cache
  std::optional<Status> refusal = {};  // of the request, before anything is said
  std::optional<Status> failure = {};  // behind the pieces
};

struct FakeScript {
  std::string name = "fake";
  int64_t context_tokens = 8192;
  // > 0: what is said comes at multiples of it, as from a model that computes in steps.
  std::chrono::microseconds step{0};
  std::string tokenizer = {};            // a tokenizer.json; empty: that of the program's own model
  std::vector<FakeAnswer> answers = {};  // the first that matches is given
};

// Errors name the field. Unknown fields are errors.
Result<FakeScript> ParseFakeScript(std::string_view json);

}  // namespace thalweg::api
