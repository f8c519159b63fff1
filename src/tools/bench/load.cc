#include "tools/bench/load.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "base/mapped_file.h"
#include "base/math.h"
#include "base/rng.h"
#include "tools/option_rows.h"

namespace thalweg::tools::bench {
namespace {

using base::OptionKind;
using base::OptionRow;

// What a random number of the load is for.
enum class Draw : uint32_t { kLength, kToken, kPlace, kArrival };

uint32_t RandomWord(uint64_t seed, Draw draw, uint64_t stream, uint64_t at) {
  const base::PhiloxCounter counter = {static_cast<uint32_t>(at), static_cast<uint32_t>(stream),
                                       static_cast<uint32_t>(stream >> 32),
                                       static_cast<uint32_t>(draw)};
  return base::Philox4x32(counter, base::PhiloxKeyOf(seed))[0];
}

// A number in [0, count).
int64_t RandomBelow(uint32_t word, int64_t count) {
  return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(count)) >> 32);
}

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool InRange(std::optional<int64_t> n) { return n.has_value() && *n >= 1 && *n <= kMostLoadTokens; }

bool LooksLikeNumbers(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789:") == std::string_view::npos;
}

Result<std::vector<int64_t>> ReadLengths(std::string_view option, const std::string& path) {
  Result<std::string> content = base::ReadFile(path, kMostLengthBytes);
  if (!content.ok()) return content.status().WithContext(fmt::format("--{}", option));
  std::vector<int64_t> lengths;
  std::string_view rest = *content;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const std::optional<int64_t> length = Number(line);
    if (!InRange(length)) {
      return base::InvalidArgument(fmt::format("--{}: line {} of {} is not a number from 1 to {}",
                                               option, lengths.size() + 1, path, kMostLoadTokens));
    }
    lengths.push_back(*length);
  }
  if (lengths.empty())
    return base::InvalidArgument(fmt::format("--{}: {} has no lengths", option, path));
  return lengths;
}

// `count` tokens: random ones of a stream, or a slice of the text from a random place.
void AppendTokens(const LoadOptions& o, uint64_t stream, int64_t count, int64_t vocab,
                  std::span<const int32_t> text, std::vector<int32_t>* out) {
  const auto length = static_cast<int64_t>(text.size());
  const int64_t from =
      text.empty() ? 0 : RandomBelow(RandomWord(o.seed, Draw::kPlace, stream, 0), length);
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<uint64_t>(i);
    const int64_t random = RandomBelow(RandomWord(o.seed, Draw::kToken, stream, at), vocab);
    out->push_back(text.empty() ? static_cast<int32_t>(random)
                                : text[static_cast<size_t>((from + i) % length)]);
  }
}

// Time to the next arrival of a Poisson process.
double Interval(const LoadOptions& o, int64_t request) {
  const uint32_t word = RandomWord(o.seed, Draw::kArrival, 0, static_cast<uint64_t>(request));
  return -std::log(base::OpenUnit(word)) / o.rate_per_s;
}

int64_t PromptTokens(const LoadOptions& o, int64_t request) {
  return o.prompt_tokens.Of(o.seed, request);
}

Status CheckTotal(const LoadOptions& o) {
  int64_t total = 0;
  for (int64_t i = 0; i < o.requests && total <= kMostLoadTotal; ++i)
    total += o.shared_prefix + PromptTokens(o, i);
  if (total <= kMostLoadTotal) return {};
  return base::InvalidArgument(fmt::format(
      "all prompts together have more than {} tokens: ask for fewer or shorter --requests",
      kMostLoadTotal));
}

}  // namespace

Result<Lengths> Lengths::Parse(std::string_view option, const std::string& text) {
  Lengths lengths;
  if (!LooksLikeNumbers(text)) {
    TW_ASSIGN(lengths.table_, ReadLengths(option, text));
    return lengths;
  }
  const size_t colon = text.find(':');
  const std::string_view all = text;
  const auto least = Number(all.substr(0, colon));
  const auto most = colon == std::string::npos ? least : Number(all.substr(colon + 1));
  if (!InRange(least) || !InRange(most) || *most < *least) {
    return base::InvalidArgument(
        fmt::format("--{} is \"{}\", but must be N, A:B with A <= B (1 to {}), or a file with one "
                    "number a line",
                    option, text, kMostLoadTokens));
  }
  lengths.least_ = *least;
  lengths.most_ = *most;
  return lengths;
}

int64_t Lengths::Of(uint64_t seed, int64_t request) const {
  const auto i = static_cast<uint64_t>(request);
  if (!table_.empty()) return table_[i % table_.size()];
  return least_ + RandomBelow(RandomWord(seed, Draw::kLength, 0, i), most_ - least_ + 1);
}

std::vector<OptionRow> LoadOptions::Rows() {
  return {
      CountRow("requests", "how many (throughput, latency; default 256 and 32)", "", 1,
               kMostLoadRequests),
      CountRow("concurrency",
               "requests under way at a time; default --max-sequences (throughput) or 1 (latency)",
               "", 1, kMostLoadRequests),
      {.name = "rate",
       .kind = OptionKind::kReal,
       .help = "requests a second, at random times (Poisson), instead of --concurrency",
       .least = 1e-6,
       .most = 1e6},
      {.name = "prompt-tokens",
       .help = "length of prompts behind the shared prefix: N, A:B (uniform) or a file with one "
               "number a line",
       .fallback = "128",
       .value_name = "N|A:B|FILE"},
      {.name = "output-tokens",
       .help = "length of answers, likewise; end tokens are ignored",
       .fallback = "64",
       .value_name = "N|A:B|FILE"},
      CountRow("shared-prefix", "tokens that all prompts of a group begin with", "0", 0,
               kMostLoadTokens),
      CountRow("prefix-groups", "groups of prompts that share a prefix", "1", 1, kMostLoadRequests),
      {.name = "prompt-text",
       .help = "prompts are slices of this text (.jsonl: of its \"text\" members) and not random "
               "tokens",
       .value_name = "FILE"},
      CountRow("load-seed", "of prompts, lengths and arrivals", "1", 0, 9e15),
      {.name = "temperature",
       .kind = OptionKind::kReal,
       .help = "of all requests; 0: greedy",
       .fallback = "0",
       .most = 100},
      {.name = "so-args",
       .help = "what binds every answer, as JSON (docs/structured.md); a text that must end ends "
               "its answer",
       .value_name = "JSON"},
      {.name = "csv",
       .kind = OptionKind::kFlag,
       .help = "print a line of names and a line of values"},
  };
}

Result<LoadOptions> LoadOptions::From(const base::OptionValues& values, int64_t concurrency) {
  LoadOptions o;
  if (values.Has("rate") && values.Has("concurrency")) {
    return base::InvalidArgument(
        "--rate sends requests whatever is under way, --concurrency when another one ends: leave "
        "one of them out");
  }
  o.concurrency = values.OptionalInteger("concurrency").value_or(concurrency);
  o.rate_per_s = values.OptionalReal("rate").value_or(0);
  TW_ASSIGN(o.prompt_tokens, Lengths::Parse("prompt-tokens", values.Text("prompt-tokens")));
  TW_ASSIGN(o.output_tokens, Lengths::Parse("output-tokens", values.Text("output-tokens")));
  o.shared_prefix = values.Integer("shared-prefix");
  o.prefix_groups = values.Integer("prefix-groups");
  o.seed = static_cast<uint64_t>(values.Integer("load-seed"));
  o.temperature = values.Real("temperature");
  o.so_args = values.Text("so-args");
  return o;
}

Result<std::vector<LoadRequest>> MakeLoad(const LoadOptions& o, int64_t vocab,
                                          std::span<const int32_t> text) {
  TW_TRY(CheckTotal(o));
  std::vector<LoadRequest> load(static_cast<size_t>(o.requests));
  double at_s = 0;
  for (int64_t i = 0; i < o.requests; ++i) {
    LoadRequest& r = load[static_cast<size_t>(i)];
    // Prefixes have even streams, own tokens odd ones.
    const auto group = static_cast<uint64_t>(i % o.prefix_groups);
    AppendTokens(o, 2 * group, o.shared_prefix, vocab, text, &r.prompt);
    AppendTokens(o, 2 * static_cast<uint64_t>(i) + 1, PromptTokens(o, i), vocab, text, &r.prompt);
    r.output_tokens = o.output_tokens.Of(~o.seed, i);
    if (o.rate_per_s > 0) r.at_s = at_s += Interval(o, i);
  }
  return load;
}

}  // namespace thalweg::tools::bench
