// Sets of tokens as bits: token t is bit t % 32 of word t / 32.
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg::grammar {

inline void SetToken(std::vector<uint32_t>* bits, int32_t token) {
  (*bits)[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
}

inline void ClearToken(std::vector<uint32_t>* bits, int32_t token) {
  (*bits)[static_cast<size_t>(token) / 32] &= ~(uint32_t{1} << (token % 32));
}

}  // namespace thalweg::grammar
