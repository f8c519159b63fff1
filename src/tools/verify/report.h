// What `thalweg verify` found: one line per check, for people and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace thalweg::tools {

enum class Verdict { kOk, kFailed, kSkipped };

// The stages in the order in which they run, from the inside out.
enum class Stage { kExact, kLayers, kLongPrompt, kPrompts, kDecode, kDrafts, kVision };
std::string_view StageName(Stage stage);

struct CheckId {
  Stage stage = Stage::kExact;
  int layer = -1;    // -1: the check belongs to no layer
  std::string part;  // what is judged ("attn_out")
  std::string name;  // unique within a report ("dump/rand17/3/attn_out")
};

struct Check {
  CheckId id;
  double figure = 0;
  double limit = 0;
  bool at_least = false;  // the figure must reach the limit; otherwise it must not exceed it
  Verdict verdict = Verdict::kOk;
  std::string note;  // why it was skipped, where the worst figure stands
};

struct VerifyReport {
  std::string folder;
  std::string backend;
  bool same_rounding = false;  // which limits were applied
  bool int8 = false;           // and whether they were widened for int8 products
  std::vector<Check> checks;

  // A figure that is not a number fails either way.
  void AtMost(CheckId id, double figure, double limit, std::string note = "");
  void AtLeast(CheckId id, double figure, double limit, std::string note = "");
  void Skip(CheckId id, std::string why);

  int64_t Count(Verdict verdict) const;
  bool ok() const { return Count(Verdict::kFailed) == 0; }
  // The failed check that is nearest to the cause: the earliest stage, in it the lowest layer, in
  // it the earliest point of the forward. Null when everything holds.
  const Check* FirstFailure() const;
};

// One line a check, then the count, then the first failure if there is one.
std::string ToText(const VerifyReport& report);
base::Json ToJson(const VerifyReport& report);

}  // namespace thalweg::tools
