#include "tools/verify/context.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::tools {

Result<std::span<const int32_t>> PromptIds(const GoldenFolder& golden, const std::string& prompt) {
  const std::string entry = fmt::format("prompt/{}/ids", prompt);
  TW_ASSIGN(const auto ids, golden.Integers(entry));
  if (static_cast<int64_t>(ids.size()) <= kMaxGoldenTokens) return ids;
  return base::OutOfRange(
      fmt::format("golden entry {} has more than {} tokens", entry, kMaxGoldenTokens));
}

Result<std::span<const int32_t>> Continuation(const GoldenFolder& golden,
                                              const std::string& prompt) {
  const std::string entry = fmt::format("greedy/{}/tokens", prompt);
  if (!golden.Has(entry)) return std::span<const int32_t>();
  TW_ASSIGN(const auto tokens, golden.Integers(entry));
  if (static_cast<int64_t>(tokens.size()) <= kMaxGoldenTokens) return tokens;
  return base::OutOfRange(
      fmt::format("golden entry {} has more than {} tokens", entry, kMaxGoldenTokens));
}

Result<int64_t> LongestForward(const GoldenFolder& golden) {
  size_t longest = 1;
  for (const std::string& prompt : golden.ChildrenOf("prompt/")) {
    TW_ASSIGN(const auto ids, PromptIds(golden, prompt));
    TW_ASSIGN(const auto continuation, Continuation(golden, prompt));
    const auto drafts = golden.ChildrenOf(fmt::format("dspark/{}/", prompt)).size();
    longest = std::max(longest, ids.size() + std::max(continuation.size(), drafts));
  }
  if (golden.Has("vl/ids")) {
    TW_ASSIGN(const auto ids, golden.Integers("vl/ids"));
    longest = std::max(longest, ids.size());
  }
  return static_cast<int64_t>(longest);
}

VerifySequence::VerifySequence(model::Model& model)
    : model_(model), id_(model.pool().Open().value()) {}

VerifySequence::~VerifySequence() { model_.pool().Close(id_); }

Result<std::vector<float>> VerifySequence::Append(std::span<const int32_t> tokens,
                                                  model::LogitRows logits, model::Probe* probe,
                                                  std::span<const uint8_t> image) {
  const model::Chunk chunk{.sequence = id_, .tokens = tokens, .image = image, .logits = logits};
  model::StepOutput output;
  TW_TRY(model_.Step({&chunk, 1}, &output, probe));
  return std::move(output.logits);
}

}  // namespace thalweg::tools
