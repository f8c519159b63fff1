// What the draft module made for one sequence: kept from the step that drafted to the one that
// verifies, and good for that anchor alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thalweg::spec {

struct DraftBlock {
  uint64_t sequence = 0;  // 0: none
  int64_t position = 0;   // of the anchor: the newest token, not yet run
  int32_t anchor = -1;
  std::vector<int32_t> tokens = {};     // for the positions behind the anchor
  std::vector<float> confidences = {};  // of each: raw, from the confidence head
  std::vector<float> logits = {};       // [tokens, vocab]; empty where nobody will ask for them

  // Whether these are drafts for that anchor of that sequence. After a gap in scheduling, a
  // preemption or another owner of the slot they are not, and none of them may be verified.
  bool Follows(uint64_t of, int64_t at, int32_t token) const {
    return sequence != 0 && sequence == of && position == at && anchor == token;
  }
  // The first `most` of them when they follow, none otherwise.
  std::span<const int32_t> For(uint64_t of, int64_t at, int32_t token, size_t most) const {
    if (!Follows(of, at, token)) return {};
    return std::span(tokens).first(most < tokens.size() ? most : tokens.size());
  }
};

}  // namespace thalweg::spec
