// The name of a block of tokens: a hash over everything that its cached rows depend on
// (docs/contracts/cache.md; spec/serving.md 5.2).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace thalweg::cache {

// Tokens of one block. Independent of the layers' own geometries: a multiple of every compression
// ratio.
inline constexpr int64_t kBlockTokens = 64;

// The first 128 bits of a SHA-256. Two blocks with one name are taken to be one block.
struct BlockHash {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const BlockHash&, const BlockHash&) = default;
};

// Where every chain of one model, one format and one salt begins. Lengths are hashed too, so that
// no pair of identity and salt is spelled like another.
BlockHash RootHash(std::string_view identity, std::string_view salt);

// The block of kBlockTokens tokens behind `parent`. `extra` is whatever else its rows depend on:
// hashes of the images that its tokens stand for; empty for text.
BlockHash ChainHash(const BlockHash& parent, std::span<const int32_t> tokens,
                    std::string_view extra = {});

}  // namespace thalweg::cache
