#include "tools/verify/verify.h"

#include <algorithm>

#include "tools/verify/context.h"

namespace thalweg::tools {
namespace {

Result<std::unique_ptr<model::Model>> LoadModel(const checkpoint::Checkpoint& checkpoint,
                                                const VerifyOptions& options,
                                                const base::ThreadTeam& team, int64_t rows) {
  return model::Model::Load(checkpoint,
                            {.ops = options.ops,
                             .team = &team,
                             .max_rows = std::max(rows, checkpoint.config().dspark_block_size),
                             .max_sequences = 1,
                             .max_tokens = rows,
                             .activation_format = options.activation_format,
                             .window_format = options.window_format,
                             .main_format = options.main_format,
                             .index_format = options.index_format});
}

Status RunStages(VerifyContext& context, bool stop) {
  TW_TRY(VerifyExact(context));
  for (const std::string& dump : context.golden.ChildrenOf("dump/")) {
    if (stop && !context.report.ok()) return {};
    TW_TRY(VerifyLayers(context, dump));
  }
  for (const auto stage : {VerifyPrompts, VerifyDecode, VerifyDrafts}) {
    if (stop && !context.report.ok()) return {};
    TW_TRY(stage(context));
  }
  return VerifyVision(context);
}

}  // namespace

Result<VerifyReport> Verify(const VerifyOptions& options) {
  TW_CHECK(options.ops != nullptr);
  TW_ASSIGN(const GoldenFolder golden, GoldenFolder::Open(options.golden_dir));
  TW_ASSIGN(const auto checkpoint, checkpoint::Checkpoint::Open(options.golden_dir / "model"));
  TW_ASSIGN(const Limits limits, ReadLimits(golden, *options.ops));
  TW_ASSIGN(const int64_t rows, LongestForward(golden));
  const base::ThreadTeam team(options.threads, options.pinning);
  TW_ASSIGN(const auto model, LoadModel(checkpoint, options, team, rows));
  VerifyReport report{.folder = options.golden_dir.string(),
                      .backend = std::string(options.ops->name),
                      .same_rounding = limits.same_rounding,
                      .int8 = limits.int8,
                      .checks = {}};
  VerifyContext context{golden, checkpoint, limits, *model, report};
  TW_TRY(RunStages(context, options.stop_at_first_failure).WithContext(report.folder));
  return report;
}

}  // namespace thalweg::tools
