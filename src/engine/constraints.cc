#include "engine/constraints.h"

#include <fmt/format.h>

#include <utility>

#include "base/json.h"

namespace thalweg::engine {
namespace {

constexpr std::string_view kStartsAfter = "starts_after_token";
// A schema's own nesting is limited when it is compiled (grammar/limits.h).
constexpr base::JsonLimits kJsonLimits = {.max_depth = 512};

Result<int32_t> ParseStartsAfter(const base::Json& json, const text::Tokenizer& tokenizer) {
  if (json.is_number_integer()) {
    const auto id = json.get<int64_t>();
    if (id >= 0 && id < tokenizer.vocab_size()) return static_cast<int32_t>(id);
  } else if (json.is_string()) {
    if (const auto id = tokenizer.IdOfSpecial(json.get<std::string>()); id.has_value()) return *id;
  }
  return base::InvalidArgument(
      fmt::format("so_args.{} is {}, but must be a token id or a special token as text",
                  kStartsAfter, json.dump().substr(0, 100)));
}

// Everything that the rules depend on.
std::string KeyOf(const grammar::Constraint& c) {
  return fmt::format("{} {} {} {} {} {}", static_cast<int>(c.kind),
                     static_cast<int>(c.schema.whitespace), c.schema.any_order, c.schema.strict,
                     c.schema.open_formats, c.content);
}

}  // namespace

Result<SoArgs> ParseSoArgs(std::string_view text, std::string_view whitespace,
                           const text::Tokenizer& tokenizer) {
  TW_ASSIGN(base::Json json, base::ParseJson(text, "so_args", kJsonLimits));
  if (!json.is_object()) {
    return base::InvalidArgument(
        R"(so_args must be an object: {"type": "json_schema", "content": {...}})");
  }
  SoArgs args;
  if (json.contains(kStartsAfter)) {
    TW_ASSIGN(args.starts_after, ParseStartsAfter(json[kStartsAfter], tokenizer));
    json.erase(kStartsAfter);
  }
  const base::Json type = json.value("type", base::Json());
  if (!json.contains("whitespace") && type != "regex" && type != "ebnf")
    json["whitespace"] = whitespace;
  TW_ASSIGN(args.constraint, grammar::ParseConstraint(json));
  return args;
}

Constraints::Constraints(Options options)
    : options_(std::move(options)),
      cache_(options_.cache_bytes),
      forced_(options_.tokenizer.get(), options_.forced_tokens),
      workers_(options_.threads) {}

// Made for the first request that needs it: a trie of the whole vocabulary.
std::shared_ptr<const grammar::Vocabulary> Constraints::Vocabulary() {
  std::call_once(vocabulary_made_, [this] {
    vocabulary_ = grammar::Vocabulary::Of(
        *options_.tokenizer,
        {.size = static_cast<int32_t>(options_.vocab), .end_tokens = options_.end_tokens});
  });
  return vocabulary_;
}

Result<Constraints::Compiled> Constraints::Compile(const std::string& so_args,
                                                   int32_t reasoning_end) {
  if (options_.tokenizer == nullptr)
    return base::Unsupported("so_args need a tokenizer, and this engine has none");
  if (options_.tokenizer->vocab_size() > options_.vocab) {
    return base::Unsupported(
        fmt::format("so_args: the tokenizer has {} tokens, and the model's logits {}",
                    options_.tokenizer->vocab_size(), options_.vocab));
  }
  TW_ASSIGN(const SoArgs args, ParseSoArgs(so_args, options_.whitespace, *options_.tokenizer));
  const auto compile = [&]() -> Result<GrammarRef> {
    TW_ASSIGN(
        grammar::Rules rules,
        grammar::CompileConstraint(args.constraint, options_.tokenizer.get(), options_.limits));
    return grammar::Grammar::Create(std::move(rules), Vocabulary(), options_.limits);
  };
  Compiled compiled;
  Result<GrammarRef> grammar = cache_.Get(KeyOf(args.constraint), compile);
  if (!grammar.ok()) return grammar.status().WithContext("so_args");
  compiled.grammar = *std::move(grammar);
  compiled.starts_after = args.starts_after.value_or(reasoning_end);
  return compiled;
}

void Constraints::Open(uint64_t first, int32_t n, const Compiled& compiled) {
  for (int32_t i = 0; i < n; ++i) {
    auto masks = std::make_shared<SequenceMasks>(
        compiled.grammar, compiled.starts_after,
        SequenceMasks::Shared{.workers = &workers_, .times = &times_, .forced = &forced_});
    masks->Prepare();
    const std::scoped_lock lock(mutex_);
    sequences_[first + static_cast<uint64_t>(i)] = std::move(masks);
  }
}

void Constraints::Close(uint64_t first, int32_t n) {
  const std::scoped_lock lock(mutex_);
  for (int32_t i = 0; i < n; ++i) sequences_.erase(first + static_cast<uint64_t>(i));
}

std::shared_ptr<exec::TokenMasks> Constraints::Find(uint64_t sequence) {
  const std::scoped_lock lock(mutex_);
  const auto found = sequences_.find(sequence);
  return found == sequences_.end() ? nullptr : found->second;
}

ConstraintMetrics Constraints::metrics() const {
  constexpr double kSeconds = 1e-9;
  const GrammarCache::Stats cache = cache_.stats();
  const ForcedText::Counts forced = forced_.counts();
  return {.compiled = cache.compiled,
          .cache_hits = cache.hits,
          .refused = cache.failed,
          .grammars = cache.grammars,
          .grammar_bytes = cache.bytes,
          .masks = times_.masks,
          .mask_seconds = static_cast<double>(times_.make_ns) * kSeconds,
          .wait_seconds = static_cast<double>(times_.wait_ns) * kSeconds,
          .forced_drafts = forced.offered,
          .steps_saved = forced.accepted};
}

}  // namespace thalweg::engine
