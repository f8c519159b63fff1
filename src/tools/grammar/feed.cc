#include "tools/grammar/feed.h"

#include <fmt/format.h>

#include <chrono>

namespace thalweg::tools {
namespace {

uint64_t Nanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace

bool MaskHas(const grammar::Mask& mask, int32_t token) {
  const auto t = static_cast<size_t>(token);
  return t / 32 < mask.size() && (mask[t / 32] >> (t % 32) & 1) != 0;
}

Result<int64_t> Feed(std::span<const int32_t> tokens, grammar::Matcher* matcher,
                     const MaskTimer& timer) {
  uint64_t begin = Nanoseconds();
  for (size_t i = 0; i < tokens.size(); ++i) {
    TW_ASSIGN(const std::shared_ptr<const grammar::Mask> mask, matcher->NextMask());
    if (timer) timer(Nanoseconds() - begin);
    const bool may = MaskHas(*mask, tokens[i]);
    begin = Nanoseconds();
    TW_ASSIGN(const bool accepted, matcher->Accept(tokens[i]));
    if (accepted != may) {
      return base::Internal(fmt::format("token {} at {} is {} by the mask and {} by the recogniser",
                                        tokens[i], i, may ? "allowed" : "forbidden",
                                        accepted ? "accepted" : "refused"));
    }
    if (!accepted) return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(tokens.size());
}

}  // namespace thalweg::tools
