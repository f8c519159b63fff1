// `thalweg bench model --synthetic` on a device: weights are made where they stay, steps are timed
// without looking inside, and what routing read is counted in steps of its own.
#pragma once

#include "tools/bench/layers.h"

namespace thalweg::tools::bench {

// As BenchLayers, for a backend whose memory is not the host's. Shares are of the copy rate and of
// the rate of matrix units that the device reached at the beginning of the same run.
Result<std::vector<ModelFigure>> BenchDeviceLayers(
    const checkpoint::Config& base, const kernels::Ops& ops, const base::ThreadTeam& team,
    const LayersBenchOptions& options, const std::function<void(const std::string&)>& note);

}  // namespace thalweg::tools::bench
