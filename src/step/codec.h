// Plans and results as bytes and back: what crosses from the control plane to a rank in another
// process (docs/contracts/step.md).
//
// Format, little endian: magic, version, then the fields in the order of step/plan.h. Lists and
// texts carry a 32-bit length before their elements. There is one spelling of every value, so equal
// plans are equal bytes.
//
// Decoding trusts nothing: lengths are checked against the bytes that are left before anything is
// allocated, enumerations and truth values against what they may be, and plans against the limits
// below and CheckPlan. Errors are kInvalidArgument, and kUnsupported for another version.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "step/plan.h"

namespace thalweg::step {

inline constexpr uint32_t kCodecVersion = 2;

// No plan or result is larger; a longer message is refused unread.
inline constexpr int64_t kMaxMessageBytes = int64_t{1} << 30;
inline constexpr int32_t kMaxSlots = 1 << 16;
inline constexpr int64_t kMaxPosition = int64_t{1} << 40;

// Replaces *bytes, keeps its memory.
void EncodePlan(const StepPlan& plan, std::string* bytes);
void EncodeResult(const StepResult& result, std::string* bytes);

// Replaces *plan or *result; after an error its content is of no use.
Status DecodePlan(std::string_view bytes, StepPlan* plan);
Status DecodeResult(std::string_view bytes, StepResult* result);

// What every plan keeps, wherever it comes from: slots and positions in range, at most one close,
// start and entry of rows for a slot, block ranges in order and covering `blocks`, and the first
// rows of every sequence that begins, with tokens for them.
Status CheckPlan(const StepPlan& plan);

}  // namespace thalweg::step
