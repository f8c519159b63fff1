// The state that the longest prompt leaves behind: selections, candidate pool and cache tails.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/verify/context.h"
#include "tools/verify/figures.h"

namespace thalweg::tools {

// Watches one forward over the whole prompt, end to end, and compares what the manifest calls
// long/... These are checks of the whole: the input of a layer carries the deviations of the layers
// before, so what is judged is how much of a selection or pool is shared, and how far cache rows
// are apart.
class LongProbe : public model::Probe {
 public:
  explicit LongProbe(const GoldenFolder& golden) : golden_(golden) {}

  bool Wants(int layer, std::string_view point) const override;
  void See(int layer, std::string_view point, const tensor::MutableView& view) override;
  // Adds the checks to the report.
  Status Report(VerifyContext& context) const;

 private:
  Status ReportSelection(VerifyContext& context, int layer, const std::vector<int32_t>& ours) const;
  Status ReportPool(VerifyContext& context, int layer, const std::vector<uint8_t>& ours) const;
  Status ReportTail(VerifyContext& context, int layer, std::string_view point,
                    const Rows& ours) const;

  const GoldenFolder& golden_;
  std::map<int, std::vector<int32_t>> selection_;            // of the last query
  std::map<int, std::vector<uint8_t>> pool_;                 // of the last query
  std::map<std::pair<int, std::string_view>, Rows> caches_;  // all rows
};

}  // namespace thalweg::tools
