#include "cache/block_hash.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/sha256.h"

namespace thalweg::cache {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes cover little-endian words");

// Changes when what is hashed changes: no block is then found under its old name.
constexpr std::string_view kRootVersion = "thalweg block chain 1";

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

void UpdateText(base::Sha256* hash, std::string_view text) {
  hash->Update(BytesOf(static_cast<uint64_t>(text.size()))).Update(text);
}

BlockHash Truncated(const base::Sha256Digest& digest) {
  BlockHash hash;
  std::memcpy(&hash.high, digest.data(), sizeof(hash.high));
  std::memcpy(&hash.low, digest.data() + sizeof(hash.high), sizeof(hash.low));
  return hash;
}

}  // namespace

BlockHash RootHash(std::string_view identity, std::string_view salt) {
  base::Sha256 hash;
  UpdateText(&hash, kRootVersion);
  UpdateText(&hash, identity);
  UpdateText(&hash, salt);
  return Truncated(hash.Finish());
}

BlockHash ChainHash(const BlockHash& parent, std::span<const int32_t> tokens,
                    std::string_view extra) {
  TW_CHECK_EQ(static_cast<int64_t>(tokens.size()), kBlockTokens);
  // One piece: a call for each field would cost as much as the digest.
  std::array<char, sizeof(parent) + kBlockTokens * sizeof(int32_t)> bytes;
  std::memcpy(bytes.data(), &parent, sizeof(parent));
  std::memcpy(bytes.data() + sizeof(parent), tokens.data(), tokens.size_bytes());
  base::Sha256 hash;
  hash.Update({bytes.data(), bytes.size()});
  if (!extra.empty()) hash.Update(extra);
  return Truncated(hash.Finish());
}

}  // namespace thalweg::cache
