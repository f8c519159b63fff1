// A row of `thalweg bench model`, for people and for programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace thalweg::tools::bench {

struct ModelFigure {
  // "prefill", "decode"; of synthetic layers "decode layers", "decode head", "decode", "prefill
  // encoder", and "op NAME": then ms_per_step is that of a released-size step, share of its layers.
  std::string phase;
  int64_t layers = 0;
  int64_t batch = 1;    // sequences of a step
  int64_t context = 0;  // tokens before a decode step; of the prompt in a prefill
  double tokens_per_s = 0;
  double ms_per_step = 0;  // of a prefill: of the whole prompt
  double share = 0;     // of the limit in bytes or operations, whichever is nearer, of this machine
  double launches = 0;  // of kernels a layer; 0: not counted
};

// One figure for each op of a step that brings so many tokens: `of` with the op's name behind its
// phase, the op's seconds and its share of all.
void AddOpFigures(const std::map<std::string, double>& seconds, int64_t tokens,
                  const ModelFigure& of, std::vector<ModelFigure>* figures);

base::Json ToJson(const std::vector<ModelFigure>& figures);
std::string ToTable(const std::vector<ModelFigure>& figures);

}  // namespace thalweg::tools::bench
