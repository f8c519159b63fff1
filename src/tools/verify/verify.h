// `thalweg verify`: runs every check that a golden folder describes on the checkpoint inside it.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "base/thread_team.h"
#include "kernels/ops.h"
#include "tensor/row_format.h"
#include "tools/verify/report.h"

namespace thalweg::tools {

struct VerifyOptions {
  // Holds model/, golden.safetensors, manifest.json and tokenizer_cases.json.
  std::filesystem::path golden_dir;
  const kernels::Ops* ops = nullptr;  // the backend; not owned
  int threads = 0;                    // 0: as many as the process may use
  base::Pinning pinning = base::Pinning::kAuto;
  // Leave out the stages after the first one that fails: what a test of the checks itself needs.
  bool stop_at_first_failure = false;

  // Formats of activations and caches. Anything but these is a deviation that the checks must find.
  tensor::RowFormat activation_format = tensor::RowFormat::kFp8E8M0;
  tensor::RowFormat window_format = tensor::RowFormat::kFp8E8M0;
  tensor::RowFormat main_format = tensor::RowFormat::kFp4E4M3;
  tensor::RowFormat index_format = tensor::RowFormat::kFp4E8M0;
};

// Exact checks; every layer fed with the stored inputs; end to end; teacher-forced decode and
// drafts. What needs a part that this build has not (vision) is reported as skipped, by name. A
// backend with ops->same_rounding is held to the same_rounding limits, any other to the free ones.
// Limits, prompts, layers and steps come from the manifest, so any folder of this form will do.
// Errors: a missing or malformed file, an entry of another shape than the manifest or the config
// says. A check that fails is no error: it stands in the report.
Result<VerifyReport> Verify(const VerifyOptions& options);

}  // namespace thalweg::tools
