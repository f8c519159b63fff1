#include "checkpoint/engram_tables.h"

#include <fmt/format.h>

#include <array>
#include <bit>

namespace thalweg::checkpoint {
namespace {

uint64_t PowerMod(uint64_t base, uint64_t exponent, uint64_t modulus) {
  uint64_t result = 1;
  for (base %= modulus; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = static_cast<uint64_t>(Uint128{result} * base % modulus);
    base = static_cast<uint64_t>(Uint128{base} * base % modulus);
  }
  return result;
}

// One Miller-Rabin round: false proves that n is composite.
bool PassesRound(uint64_t n, uint64_t witness) {
  const int twos = std::countr_zero(n - 1);
  uint64_t x = PowerMod(witness, (n - 1) >> twos, n);
  if (x == 1 || x == n - 1) return true;
  for (int i = 1; i < twos; ++i) {
    x = static_cast<uint64_t>(Uint128{x} * x % n);
    if (x == n - 1) return true;
  }
  return false;
}

// Exact below 3.4e14: these witnesses have no common strong liar there.
bool IsPrime(uint64_t n) {
  constexpr std::array<uint64_t, 7> kWitnesses = {2, 3, 5, 7, 11, 13, 17};
  if (n < 2) return false;
  for (const uint64_t p : kWitnesses) {
    if (n % p == 0) return n == p;
  }
  for (const uint64_t witness : kWitnesses) {
    if (!PassesRound(n, witness)) return false;
  }
  return true;
}

// Layers and orders share one set of used primes and all start at the same number, so together they
// take consecutive primes (spec/model.md 2.3).
class PrimeSequence {
 public:
  explicit PrimeSequence(int64_t first) : next_(first) {}
  int64_t Next() {
    while (!IsPrime(static_cast<uint64_t>(next_))) ++next_;
    return next_++;
  }

 private:
  int64_t next_;
};

std::vector<int64_t> Multipliers(const Config& config, int64_t layer) {
  constexpr int64_t kSeedPerLayer = 10007;
  const int64_t bound = INT64_MAX / config.engram_compressed_vocab_size / 2;
  NumpyGenerator generator(static_cast<uint64_t>(kSeedPerLayer * layer));
  std::vector<int64_t> multipliers;
  for (int64_t i = 0; i < config.engram_max_ngram_size; ++i) {
    multipliers.push_back(generator.NextBelow(bound) * 2 + 1);
  }
  return multipliers;
}

EngramTable MakeTable(const Config& config, int64_t layer, PrimeSequence& primes) {
  EngramTable table;
  for (int64_t column = 0; column < config.EngramColumns(); ++column) {
    table.offsets.push_back(table.rows);
    table.primes.push_back(primes.Next());
    table.rows += table.primes.back();
  }
  table.multipliers = Multipliers(config, layer);
  return table;
}

std::vector<EngramTable> MakeTables(const Config& config) {
  PrimeSequence primes(config.engram_vocab_size);
  std::vector<EngramTable> tables;
  for (const int64_t layer : config.engram_layer_ids) {
    tables.push_back(MakeTable(config, layer, primes));
  }
  return tables;
}

// --- numpy's SeedSequence (pool of four words, no spawn key) and PCG64 (XSL-RR 128/64) ---

uint32_t HashMix(uint32_t value, uint32_t& constant) {
  value ^= constant;
  constant *= 0x931e8875u;
  value *= constant;
  return value ^ value >> 16;
}

uint32_t Mix(uint32_t x, uint32_t y) {
  const uint32_t mixed = 0xca01f9ddu * x - 0x4973f715u * y;
  return mixed ^ mixed >> 16;
}

std::array<uint32_t, 4> SeedPool(uint64_t seed) {
  std::array<uint32_t, 4> pool = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  uint32_t constant = 0x43b0d7e5u;
  for (uint32_t& word : pool) word = HashMix(word, constant);
  for (size_t from = 0; from < pool.size(); ++from) {
    for (size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = Mix(pool[to], HashMix(pool[from], constant));
    }
  }
  return pool;
}

// Four 64-bit words of generated state.
std::array<uint64_t, 4> GenerateState(const std::array<uint32_t, 4>& pool) {
  std::array<uint64_t, 4> state = {};
  uint32_t constant = 0x8b51f9ddu;
  for (size_t i = 0; i < 8; ++i) {
    uint32_t word = pool[i % 4] ^ constant;
    constant *= 0x58f38dedu;
    word *= constant;
    word ^= word >> 16;
    state[i / 2] |= uint64_t{word} << (32 * (i % 2));
  }
  return state;
}

Uint128 Join(uint64_t high, uint64_t low) { return Uint128{high} << 64 | low; }

}  // namespace

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  const std::array<uint64_t, 4> words = GenerateState(SeedPool(seed));
  increment_ = Join(words[2], words[3]) << 1 | 1;
  Next64();
  state_ += Join(words[0], words[1]);
  Next64();
}

uint64_t NumpyGenerator::Next64() {
  state_ = state_ * Join(0x2360ed051fc65da4u, 0x4385df649fccf645u) + increment_;
  const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

double NumpyGenerator::NextDouble() { return static_cast<double>(Next64() >> 11) * 0x1p-53; }

int64_t NumpyGenerator::NextBelow(int64_t bound) {
  TW_CHECK_GT(bound, int64_t{1} << 32);
  const auto range = static_cast<uint64_t>(bound);
  const uint64_t threshold = (UINT64_MAX - (range - 1)) % range;
  Uint128 product = Uint128{Next64()} * range;
  while (static_cast<uint64_t>(product) < threshold) product = Uint128{Next64()} * range;
  return static_cast<int64_t>(product >> 64);
}

Result<std::vector<EngramTable>> BuildEngramTables(const Config& config) {
  std::vector<EngramTable> tables = MakeTables(config);
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].rows == config.engram_num_embeddings[i]) continue;
    return base::InvalidArgument(fmt::format(
        "text_config.engram_num_embeddings[{}] is {}, but the primes of layer {} sum to "
        "{}; engram_vocab_size, engram_n_heads or engram_max_ngram_size does not belong "
        "to this checkpoint",
        i, config.engram_num_embeddings[i], config.engram_layer_ids[i], tables[i].rows));
  }
  return tables;
}

std::vector<int64_t> EngramTableRows(const Config& config) {
  std::vector<int64_t> rows;
  for (const EngramTable& table : MakeTables(config)) rows.push_back(table.rows);
  return rows;
}

}  // namespace thalweg::checkpoint
