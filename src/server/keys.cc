#include "server/keys.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "base/mapped_file.h"
#include "server/limits.h"

namespace thalweg::server {
namespace {

constexpr std::string_view kBlanks = " \t\r";

// The next word of `line`, which loses it.
std::string_view TakeWord(std::string_view* line) {
  const size_t begin = line->find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) {
    *line = {};
    return {};
  }
  const size_t end = std::min(line->find_first_of(kBlanks, begin), line->size());
  const std::string_view word = line->substr(begin, end - begin);
  line->remove_prefix(end);
  return word;
}

Status ReadCount(std::string_view text, int number, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error == std::errc() && end == text.data() + text.size() && *out >= 0) return {};
  return base::InvalidArgument(
      fmt::format("API keys, line {}: \"{}\" must be a whole number", number, text));
}

Status SetField(std::string_view word, int number, ApiKey* key) {
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  if (name == "name" && !value.empty()) {
    key->name = value;
    return {};
  }
  if (name == "requests") return ReadCount(value, number, &key->limits.requests);
  if (name == "rate") return ReadCount(value, number, &key->limits.rate);
  return base::InvalidArgument(fmt::format(
      "API keys, line {}: \"{}\" is none of name=NAME, requests=N, rate=N", number, word));
}

// Looks at all bytes, whatever the first ones are.
bool SameDigest(const base::Sha256Digest& a, const base::Sha256Digest& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

Result<std::vector<ApiKey>> ParseKeys(std::string_view text, const KeyLimits& defaults) {
  std::vector<ApiKey> keys;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view secret = TakeWord(&line);
    if (secret.empty() || secret.front() == '#') continue;
    ApiKey key{.name = fmt::format("key-{}", number),
               .limits = defaults,
               .digest = base::Sha256Of(secret)};
    for (std::string_view word = TakeWord(&line); !word.empty(); word = TakeWord(&line))
      TW_TRY(SetField(word, number, &key));
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<KeyFile::Stamp> KeyFile::StampOf() const {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path_, error);
  if (error) return base::IoError(fmt::format("{}: {}", path_.string(), error.message()));
  return Stamp{.time = time, .size = std::filesystem::file_size(path_, error)};
}

Status KeyFile::Refresh() {
  TW_ASSIGN(const Stamp stamp, StampOf());
  {
    const std::scoped_lock lock(mutex_);
    if (keys_ != nullptr && stamp == stamp_) return {};
  }
  TW_ASSIGN(const std::string text, base::ReadFile(path_, kMaxKeyFileBytes));
  TW_ASSIGN(std::vector<ApiKey> keys, ParseKeys(text, defaults_));
  const std::scoped_lock lock(mutex_);
  keys_ = std::make_shared<const std::vector<ApiKey>>(std::move(keys));
  stamp_ = stamp;
  return {};
}

Result<std::unique_ptr<KeyFile>> KeyFile::Open(const std::filesystem::path& path,
                                               const KeyLimits& defaults) {
  std::unique_ptr<KeyFile> file(new KeyFile(path, defaults));
  TW_TRY(file->Refresh());
  if (file->keys_->empty())
    return base::InvalidArgument(fmt::format("{} has no API key", path.string()));
  return file;
}

std::optional<ApiKey> KeyFile::Find(std::string_view key) const {
  const base::Sha256Digest digest = base::Sha256Of(key);
  std::shared_ptr<const std::vector<ApiKey>> keys;
  {
    const std::scoped_lock lock(mutex_);
    keys = keys_;
  }
  std::optional<ApiKey> found;
  for (const ApiKey& one : *keys) {
    if (SameDigest(one.digest, digest)) found = one;
  }
  return found;
}

std::string_view KeyOf(std::string_view authorization, std::string_view api_key) {
  if (!api_key.empty()) return api_key;
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() <= kBearer.size()) return {};
  for (size_t i = 0; i < kBearer.size(); ++i) {
    if ((authorization[i] | 0x20) != (kBearer[i] | 0x20)) return {};
  }
  authorization.remove_prefix(kBearer.size());
  return TakeWord(&authorization);
}

}  // namespace thalweg::server
