// Text made by rule for measuring and testing tokenizers: several scripts, code, emoji, and the
// shapes that hurt (runs of one character, a million bytes without a space).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::text {

inline constexpr std::array<std::string_view, 9> kSampleKinds = {
    "english", "code", "chinese", "japanese", "korean", "arabic", "emoji", "runs", "no-space"};

// At least `bytes` bytes of a kind (an index of kSampleKinds), a few more to end with a whole
// character. The same arguments give the same text.
std::string SampleText(size_t kind, size_t bytes, uint64_t seed);

}  // namespace thalweg::text
