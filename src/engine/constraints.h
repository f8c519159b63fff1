// Constrained requests of an engine: so_args to compiled grammars, shared by a cache, and the masks
// of every sequence under one (spec/decoding.md 5.6).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/grammar_cache.h"
#include "engine/mask_workers.h"
#include "engine/sequence_masks.h"
#include "exec/token_masks.h"
#include "grammar/constraint.h"
#include "grammar/limits.h"
#include "text/tokenizer.h"

namespace thalweg::engine {

// What a request's so_args say.
struct SoArgs {
  grammar::Constraint constraint = {};
  // "starts_after_token": text is free until this token is out. None: the first token is bound, or,
  // where the prompt ends within reasoning, the first one behind it.
  std::optional<int32_t> starts_after = {};
};

// A JSON object: what grammar::ParseConstraint takes, and "starts_after_token", an id or the text
// of a special token. `whitespace` stands in where the object says nothing of it. Errors name the
// field.
Result<SoArgs> ParseSoArgs(std::string_view json, std::string_view whitespace,
                           const text::Tokenizer& tokenizer);

// Thread-safe.
class Constraints {
 public:
  struct Options {
    std::shared_ptr<const text::Tokenizer> tokenizer = {};  // null: nothing can be constrained
    int64_t vocab = 0;                                      // of the logits
    std::vector<int32_t> end_tokens = {};
    std::string whitespace = "flexible";
    grammar::Limits limits = {};
    int64_t cache_bytes = 0;
    int threads = 0;            // that make masks; 0: the threads that sample do
    int64_t forced_tokens = 0;  // drafts of forced text, of a sequence and step at most
  };
  // What intake made of so_args.
  struct Compiled {
    GrammarRef grammar = {};
    int32_t starts_after = -1;
  };

  explicit Constraints(Options options);

  // On the caller's thread; what is wrong, or more than the limits allow, is an error of the
  // request. `reasoning_end`: the token that ends the reasoning the prompt ends in; negative: none.
  Result<Compiled> Compile(const std::string& so_args, int32_t reasoning_end);
  // Sequences [first, first + n) are under way; their first masks are made from now on.
  void Open(uint64_t first, int32_t n, const Compiled& compiled);
  void Close(uint64_t first, int32_t n);
  // For the executor.
  std::shared_ptr<exec::TokenMasks> Find(uint64_t sequence);

  ConstraintMetrics metrics() const;

 private:
  std::shared_ptr<const grammar::Vocabulary> Vocabulary();

  const Options options_;
  std::once_flag vocabulary_made_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  GrammarCache cache_;
  MaskTimes times_;
  ForcedText forced_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<SequenceMasks>> sequences_;
  MaskWorkers workers_;  // last: its jobs use all of the above
};

}  // namespace thalweg::engine
