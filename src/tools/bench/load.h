// The load of `thalweg bench throughput` and `latency`: which prompts come when, all of it a
// function of the options and a seed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace thalweg::tools::bench {

inline constexpr int64_t kMostLoadRequests = 1'000'000;
inline constexpr int64_t kMostLoadTokens = 10'000'000;       // of one prompt or answer
inline constexpr int64_t kMostLoadTotal = int64_t{1} << 28;  // prompt tokens of all requests
inline constexpr uint64_t kMostLengthBytes = 16u << 20;      // of a file of lengths

// How many tokens a prompt or an answer has.
class Lengths {
 public:
  // "N", "A:B" (uniform, both ends included), or a file with one number a line, of which requests
  // take one after the other. Errors name the option.
  static Result<Lengths> Parse(std::string_view option, const std::string& text);

  int64_t Of(uint64_t seed, int64_t request) const;

 private:
  int64_t least_ = 1;
  int64_t most_ = 1;
  std::vector<int64_t> table_ = {};  // not empty: from a file
};

struct LoadOptions {
  int64_t requests = 1;
  int64_t concurrency = 1;     // requests under way at a time; with a rate: no matter
  double rate_per_s = 0;       // > 0: arrivals are a Poisson process, whatever is under way
  Lengths prompt_tokens = {};  // behind the shared prefix
  Lengths output_tokens = {};
  int64_t shared_prefix = 0;  // tokens that all prompts of a group begin with
  int64_t prefix_groups = 1;
  uint64_t seed = 1;
  double temperature = 0;
  bool ignore_eos = true;    // answers are as long as asked for
  std::string so_args = {};  // of every request (engine/request.h)

  static std::vector<base::OptionRow> Rows();
  // concurrency: what is meant where the command line says nothing.
  static Result<LoadOptions> From(const base::OptionValues& values, int64_t concurrency);
};

struct LoadRequest {
  std::vector<int32_t> prompt = {};
  int64_t output_tokens = 1;
  double at_s = 0;  // after the start; 0 without a rate
};

// text empty: random ids in [0, vocab). Else slices of it, from random places, around its end.
// kInvalidArgument when all prompts together have more than kMostLoadTotal tokens.
Result<std::vector<LoadRequest>> MakeLoad(const LoadOptions& options, int64_t vocab,
                                          std::span<const int32_t> text);

}  // namespace thalweg::tools::bench
