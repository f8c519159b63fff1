// What the stages of `thalweg verify` share, and how they run the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "tools/verify/golden.h"
#include "tools/verify/limits.h"
#include "tools/verify/report.h"

namespace thalweg::tools {

struct VerifyContext {
  const GoldenFolder& golden;
  const checkpoint::Checkpoint& checkpoint;
  const Limits& limits;
  model::Model& model;
  VerifyReport& report;

  const checkpoint::Config& config() const { return checkpoint.config(); }
};

// Ids of a prompt of the manifest, within what the model takes.
Result<std::span<const int32_t>> PromptIds(const GoldenFolder& golden, const std::string& prompt);
// The stored greedy continuation; empty when there is none.
Result<std::span<const int32_t>> Continuation(const GoldenFolder& golden,
                                              const std::string& prompt);
// Rows of the longest forward that the folder asks for.
Result<int64_t> LongestForward(const GoldenFolder& golden);

// A sequence that is closed at the end of a scope.
class VerifySequence {
 public:
  explicit VerifySequence(model::Model& model);
  ~VerifySequence();
  VerifySequence(const VerifySequence&) = delete;
  VerifySequence& operator=(const VerifySequence&) = delete;

  kvpool::SequenceId id() const { return id_; }
  // Appends tokens and returns logits [rows asked for, vocab].
  Result<std::vector<float>> Append(std::span<const int32_t> tokens, model::LogitRows logits,
                                    model::Probe* probe = nullptr,
                                    std::span<const uint8_t> image = {});

 private:
  model::Model& model_;
  kvpool::SequenceId id_;
};

// Row r of a [rows, vocab] array.
inline std::span<const float> LogitRow(std::span<const float> logits, int64_t vocab, int64_t r) {
  return logits.subspan(static_cast<size_t>(r * vocab), static_cast<size_t>(vocab));
}

// The stages, each in its own file. They add to the report; an error is a folder that cannot be
// judged.
Status VerifyExact(VerifyContext& context);
Status VerifyLayers(VerifyContext& context, const std::string& dump);
Status VerifyPrompts(VerifyContext& context);
Status VerifyDecode(VerifyContext& context);
Status VerifyDrafts(VerifyContext& context);
Status VerifyVision(VerifyContext& context);

}  // namespace thalweg::tools
