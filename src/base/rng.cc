#include "base/rng.h"

#include <algorithm>
#include <cstddef>

namespace thalweg::base {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u;
constexpr uint32_t kWeyl1 = 0xBB67AE85u;
constexpr int kRounds = 10;

PhiloxCounter Round(const PhiloxCounter& c, const PhiloxKey& k) {
  const uint64_t p0 = uint64_t{kMultiplier0} * c[0];
  const uint64_t p1 = uint64_t{kMultiplier1} * c[2];
  return {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
}

constexpr size_t kLanes = 4;  // counters side by side: one vector of each of their words
using Lanes = std::array<uint32_t, kLanes>;

void RoundOfLanes(std::array<Lanes, 4>* c, const PhiloxKey& k) {
  auto& [c0, c1, c2, c3] = *c;
  for (size_t i = 0; i < kLanes; ++i) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c0[i];
    const uint64_t p1 = uint64_t{kMultiplier1} * c2[i];
    c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k[0];
    c1[i] = static_cast<uint32_t>(p1);
    c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k[1];
    c3[i] = static_cast<uint32_t>(p0);
  }
}

void PhiloxOfLanes(const PhiloxCounter& first, PhiloxKey key, std::span<uint32_t> words) {
  std::array<Lanes, 4> c;
  for (size_t w = 0; w < 4; ++w) c[w].fill(first[w]);
  for (size_t i = 0; i < kLanes; ++i) c[2][i] += static_cast<uint32_t>(i);
  for (int round = 0; round < kRounds; ++round) {
    RoundOfLanes(&c, key);
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  for (size_t i = 0; i < kLanes; ++i) {
    for (size_t w = 0; w < 4; ++w) words[4 * i + w] = c[w][i];
  }
}

}  // namespace

void Philox4x32Series(PhiloxCounter first, PhiloxKey key, std::span<uint32_t> words) {
  for (; words.size() >= 4 * kLanes; words = words.subspan(4 * kLanes)) {
    PhiloxOfLanes(first, key, words.first(4 * kLanes));
    first[2] += static_cast<uint32_t>(kLanes);
  }
  for (; words.size() >= 4; words = words.subspan(4), ++first[2]) {
    const PhiloxCounter one = Philox4x32(first, key);
    std::copy(one.begin(), one.end(), words.begin());
  }
}

PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kRounds; ++round) {
    counter = Round(counter, key);
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

}  // namespace thalweg::base
