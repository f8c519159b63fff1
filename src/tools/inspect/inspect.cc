#include "tools/inspect/inspect.h"

#include "checkpoint/expected.h"
#include "checkpoint/token_map.h"
#include "kernels/backends.h"
#include "model/packing.h"
#include "tools/inspect/report.h"

namespace thalweg::tools {
namespace {

using checkpoint::CategoryTotal;
using checkpoint::Checkpoint;
using checkpoint::Config;

// What the config's tensors come to in the released dtypes.
std::vector<CategoryTotal> ExpectedInventory(const Config& config) {
  std::vector<CategoryTotal> totals(checkpoint::kCategories);
  for (const checkpoint::ExpectedTensor& tensor : checkpoint::ExpectedTensors(config)) {
    CategoryTotal& total = totals[static_cast<size_t>(tensor.category)];
    total.category = tensor.category;
    ++total.tensors;
    total.bytes += tensor.bytes();
  }
  std::erase_if(totals, [](const CategoryTotal& total) { return total.tensors == 0; });
  return totals;
}

// Opens everything; what Open refuses is the verdict.
Status Check(const std::filesystem::path& dir, InspectReport& report) {
  TW_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(dir));
  CheckedFacts facts;
  facts.tensors = checkpoint.tensor_count();
  facts.bytes = checkpoint.total_bytes();
  report.inventory = checkpoint.inventory();
  if (report.config.HasEngram()) {
    TW_ASSIGN(const checkpoint::TokenMap map, checkpoint::LoadTokenMap(dir, report.config));
    facts.mapped_tokens = static_cast<int64_t>(map.ids.size());
    facts.distinct_tokens = map.distinct;
  }
  report.checked = facts;
  return {};
}

}  // namespace

Status Inspect(const InspectOptions& options) {
  std::error_code unreadable;  // then Load says what is wrong
  const bool directory = std::filesystem::is_directory(options.path, unreadable);
  if (options.check && !directory) {
    return base::InvalidArgument("--check needs a checkpoint directory, not " +
                                 options.path.string());
  }
  InspectReport report;
  TW_ASSIGN(report.config, Config::Load(directory ? options.path / "config.json" : options.path));
  report.layers = checkpoint::PlanLayers(report.config);
  TW_ASSIGN(report.engram, checkpoint::BuildEngramTables(report.config));
  report.inventory = ExpectedInventory(report.config);
  report.repacked = {
      model::PackedBytes(report.config, kernels::CpuOps(kernels::Numerics::kExact), true, 0),
      model::PackedBytes(report.config, kernels::CpuOps(kernels::Numerics::kFast), true, 0)};
  if (options.check) TW_TRY(Check(options.path, report));
  *options.out << (options.json ? ReportJson(report) : ReportTables(report));
  return {};
}

}  // namespace thalweg::tools
