// Where calibrations of draft confidences are kept, and which one an engine reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "spec/calibration.h"

namespace thalweg::engine {

// Names a model by what its confidences follow from: the config and the confidence head's weights.
// kUnsupported: a checkpoint without a draft module, or opened without it.
Result<std::string> DraftIdentity(const checkpoint::Checkpoint& checkpoint);

// The file of a model in a folder of such tables (CostFolder()).
std::filesystem::path CalibrationFile(const std::filesystem::path& folder,
                                      std::string_view identity);

// Readers see the old table or the new one. Makes the folder if need be. kIo: the system refuses.
Status WriteCalibration(const std::filesystem::path& path, const spec::Calibration& calibration);
// kInvalidArgument: not such a table. kFailedPrecondition: of another model or block length.
Result<spec::Calibration> ReadCalibration(const std::filesystem::path& path,
                                          const checkpoint::Checkpoint& checkpoint);

// Temperatures by slot: of the file that is named, or of the one that is kept for this model; none
// where there is none. A kept one that cannot be read is named in the log and left alone.
Result<std::vector<double>> FindTemperatures(const std::string& file,
                                             const checkpoint::Checkpoint& checkpoint);

}  // namespace thalweg::engine
