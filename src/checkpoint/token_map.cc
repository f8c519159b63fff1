#include "checkpoint/token_map.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/env.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "checkpoint/limits.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace thalweg::checkpoint {
namespace {

namespace fs = std::filesystem;
using base::InvalidArgument;

constexpr const char* kMapName = "engram_token_map.bin";
constexpr const char* kTokenizerName = "tokenizer.json";
constexpr int kAlgorithmVersion = 1;  // of the cached files; raise it when the rule changes

// What a token is compared by (spec/model.md 2.3).
Result<std::string> KeyOf(const text::Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  const bool broken = !text::IsValidUtf8(bytes) || bytes.find(text::kReplacement) != bytes.npos;
  if (broken) return tokenizer.RawToken(id);
  TW_ASSIGN(std::string key, NormalizeTokenText(bytes));
  return key.empty() ? std::string(bytes) : key;
}

// Raw little-endian int32, one per token id.
std::string ToBytes(const std::vector<int32_t>& ids) {
  static_assert(std::endian::native == std::endian::little);
  return std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
}

// Ids must be 0 .. distinct-1, each of them used.
Status CheckIds(const std::vector<int32_t>& ids, int64_t distinct) {
  std::vector<bool> used(static_cast<size_t>(distinct), false);
  int64_t count = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= distinct) {
      return InvalidArgument(
          fmt::format("entry {} is {}; compressed ids are 0 to {}", i, ids[i], distinct - 1));
    }
    count += used[static_cast<size_t>(ids[i])] ? 0 : 1;
    used[static_cast<size_t>(ids[i])] = true;
  }
  if (count == distinct) return {};
  return InvalidArgument(fmt::format(
      "it uses {} compressed ids; engram_compressed_vocab_size is {}", count, distinct));
}

Result<TokenMap> ParseMap(std::string_view bytes, const Config& config) {
  const auto vocab = static_cast<size_t>(config.vocab_size);
  if (bytes.size() % sizeof(int32_t) != 0 || bytes.empty() ||
      bytes.size() / sizeof(int32_t) > vocab) {
    return InvalidArgument(
        fmt::format("it has {} bytes; one int32 per token id is at most {} (vocab_size {})",
                    bytes.size(), vocab * sizeof(int32_t), vocab));
  }
  TokenMap map;
  map.ids.resize(bytes.size() / sizeof(int32_t));
  std::memcpy(map.ids.data(), bytes.data(), bytes.size());
  map.distinct = config.engram_compressed_vocab_size;
  TW_TRY(CheckIds(map.ids, map.distinct));
  return map;
}

Result<TokenMap> ReadMap(const fs::path& path, const Config& config) {
  TW_ASSIGN(const std::string bytes, base::ReadFile(path, kMaxVocab * sizeof(int32_t)));
  Result<TokenMap> map = ParseMap(bytes, config);
  if (!map.ok()) return map.status().WithContext(path.string());
  return map;
}

// FNV-1a, 64 bits: names cache entries, protects nothing.
uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

// The cache folder; empty when the environment names no place for one.
fs::path CacheFolder() {
  if (const auto xdg = base::ReadEnvironment("XDG_CACHE_HOME")) return fs::path(*xdg) / "thalweg";
  if (const auto home = base::ReadEnvironment("HOME")) return fs::path(*home) / ".cache/thalweg";
  return {};
}

// Everything the map depends on is in the name: tokenizer, rule and Unicode version.
std::string CacheName(std::string_view tokenizer_json) {
  return fmt::format("engram_token_map-v{}-unicode{}-{:016x}-{}.bin", kAlgorithmVersion,
                     U_UNICODE_VERSION, Fnv1a(tokenizer_json), tokenizer_json.size());
}

void WriteCache(const fs::path& path, const TokenMap& map) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const Status written = base::WriteFile(path, ToBytes(map.ids));
  if (!written.ok()) spdlog::info("Engram token map is not cached: {}", written.message());
}

Result<TokenMap> ComputeFor(const fs::path& dir, std::string_view tokenizer_json,
                            const Config& config) {
  Result<text::Tokenizer> tokenizer = text::Tokenizer::Parse(tokenizer_json);
  if (!tokenizer.ok()) return tokenizer.status().WithContext((dir / kTokenizerName).string());
  TW_ASSIGN(TokenMap map, ComputeTokenMap(*tokenizer));
  if (map.distinct != config.engram_compressed_vocab_size) {
    return InvalidArgument(fmt::format(
        "{} folds to {} compressed tokens, but engram_compressed_vocab_size is {}: this tokenizer "
        "does not belong to the checkpoint",
        (dir / kTokenizerName).string(), map.distinct, config.engram_compressed_vocab_size));
  }
  if (static_cast<int64_t>(map.ids.size()) <= config.vocab_size) return map;
  return InvalidArgument(fmt::format("{} has {} tokens, but vocab_size is {}",
                                     (dir / kTokenizerName).string(), map.ids.size(),
                                     config.vocab_size));
}

Result<TokenMap> CachedOrComputed(const fs::path& dir, const Config& config) {
  TW_ASSIGN(const std::string json, base::ReadFile(dir / kTokenizerName, kMaxTokenizerBytes));
  const fs::path folder = CacheFolder();
  const fs::path cached = folder / CacheName(json);
  if (!folder.empty()) {
    Result<TokenMap> map = ReadMap(cached, config);
    if (map.ok()) return map;
  }
  TW_ASSIGN(TokenMap map, ComputeFor(dir, json, config));
  if (!folder.empty()) WriteCache(cached, map);
  return map;
}

}  // namespace

Result<TokenMap> ComputeTokenMap(const text::Tokenizer& tokenizer) {
  TokenMap map;
  std::unordered_map<std::string, int32_t> id_of;
  map.ids.reserve(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    TW_ASSIGN(std::string key, KeyOf(tokenizer, id));
    const auto next = static_cast<int32_t>(id_of.size());
    map.ids.push_back(id_of.try_emplace(std::move(key), next).first->second);
  }
  map.distinct = static_cast<int64_t>(id_of.size());
  return map;
}

Result<TokenMap> LoadTokenMap(const fs::path& dir, const Config& config) {
  Result<TokenMap> map = ReadMap(dir / kMapName, config);
  if (!map.ok() && map.status().code() == base::Code::kNotFound) {
    map = CachedOrComputed(dir, config);
  }
  if (!map.ok()) return map;
  // The embedding may be padded beyond the tokenizer; such ids hash like the pad token.
  const auto pad = static_cast<size_t>(config.engram_pad_token_id);
  if (pad >= map->ids.size()) {
    return InvalidArgument(
        fmt::format("{}: engram_pad_token_id {} is beyond the {} tokens of the token map",
                    dir.string(), pad, map->ids.size()));
  }
  map->ids.resize(static_cast<size_t>(config.vocab_size), map->ids[pad]);
  return map;
}

}  // namespace thalweg::checkpoint
