// `thalweg inspect experts FILE`: how evenly ranks share the work of experts by counts that an
// engine saved, as they lie and as a placement by load would put them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "parallel/rebalance.h"

namespace thalweg::tools {

struct InspectExpertsOptions {
  std::filesystem::path counts;
  std::filesystem::path placement = {};  // as it is; empty: experts in order
  int64_t ranks = 0;                     // 0: those of `placement`
  int64_t spare = 1;                     // slots of each rank beside those that experts need
  int64_t groups = 1;
  int64_t nodes = 1;
};

struct ExpertReport {
  parallel::PlacementShape shape;
  int64_t rows = 0;
  // [layers]: largest over mean load of a rank.
  std::vector<double> before = {}, after = {};
  // [layers][ranks]: load over the mean, descending.
  std::vector<std::vector<double>> ranks_before = {}, ranks_after = {};
  std::vector<double> largest_share = {};  // [layers]: of the rows, of the expert chosen most
  std::vector<int64_t> moves = {};  // [layers]: copies of weights that lead from one to the other
  parallel::Placement placement = {};  // after
};

Result<ExpertReport> InspectExperts(const InspectExpertsOptions& options);

std::string ExpertTable(const ExpertReport& report);
base::Json ExpertJson(const ExpertReport& report);
// Values as CSV, and the gnuplot script that draws them into `name`.svg.
std::string ExpertCsv(const ExpertReport& report);
std::string ExpertPlot(const ExpertReport& report, const std::string& name);

}  // namespace thalweg::tools
