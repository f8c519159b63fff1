// The facts that `thalweg inspect` reports, gathered once and written as tables or as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/engram_tables.h"

namespace thalweg::tools {

// What the end-to-end check has seen.
struct CheckedFacts {
  int64_t tensors = 0;
  int64_t bytes = 0;
  int64_t mapped_tokens = 0;    // ids of the token map
  int64_t distinct_tokens = 0;  // compressed ids
};

// Bytes that the weights take beside the mapped file when the cpu backend lays them out anew (with
// the draft module); 0: its bodies read the stored form.
struct RepackedBytes {
  int64_t exact = 0;
  int64_t fast = 0;
};

struct InspectReport {
  checkpoint::Config config;
  RepackedBytes repacked;
  std::vector<checkpoint::LayerPlan> layers;
  std::vector<checkpoint::CategoryTotal> inventory;  // expected, or as stored after a check
  std::vector<checkpoint::EngramTable> engram;
  std::optional<CheckedFacts> checked;
};

std::string ReportTables(const InspectReport& report);
std::string ReportJson(const InspectReport& report);

}  // namespace thalweg::tools
