// The sizes that benches run at: --shape released, nano or KxN.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "tools/bench/op.h"

namespace thalweg::tools::bench {

// The config of DeepSeek-V4.1-Flash as released, without vision (spec/model.md 1.2).
checkpoint::Config ReleasedConfig();

struct BenchShape {
  checkpoint::Config config;
  std::optional<MatrixShape> matrix;  // of KxN; the config is the released one then
  bool cold = true;                   // weights come from memory: not of nano, which caches hold
};

// "released", "nano" (the config.json in `nano_folder`) or "KxN": K inputs and N outputs, both
// multiples of 32 up to kMostSide. Anything else is an error that says so.
inline constexpr int64_t kMostSide = int64_t{1} << 18;
Result<BenchShape> ParseShape(std::string_view text, const std::filesystem::path& nano_folder);

// "1,8,64": numbers in [1, most], at most 64 of them.
Result<std::vector<int64_t>> ParseCounts(std::string_view text, std::string_view what,
                                         int64_t most);

}  // namespace thalweg::tools::bench
