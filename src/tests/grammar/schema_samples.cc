// Text drawn at random through the token masks of schemas, for an independent validator:
//
//   schema_samples DIRECTORY SAMPLES SEED
//
// reads the schemas ({"schema": ...}) of a directory and writes JSON lines: {"file", "text"} for
// each sample, {"file", "refused"} for a schema that is not supported, {"file", "unfinished"} with
// a count where drawing went on for too long.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "base/json.h"
#include "base/mapped_file.h"
#include "grammar/matcher.h"
#include "grammar/schema.h"

namespace thalweg::grammar {
namespace {

constexpr int32_t kEnd = 0;
constexpr int64_t kTokensBeforeHurry = 200;
constexpr int64_t kMostTokens = 16000;
// What ends a value soonest, from best to worst.
constexpr std::array kEndings = {"\"", "]", "}", "0", ":", ",", "n", "1", "a"};

std::vector<std::string> Pieces() {
  std::vector<std::string> pieces = {""};  // the end token
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"\": ",    "\": \"",  "\",\"",    "\", \"",
                            "{\"",     "\"}",     "},",       "],",
                            "[]",      "{}",      "true",     "null",
                            "false",   "\n  ",    "  ",       " the",
                            "ab",      "id",      "2024-",    "-0",
                            ".0",      ".5",      "e1",       "10",
                            "00",      "\\\"",    "\\n",      "\\u00",
                            "\\ud83d", "\\ude00", "\xC3\xA9", "\xF0\x9F\x98\x80"}) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

class Drawer {
 public:
  Drawer(std::shared_ptr<Grammar> grammar, uint64_t seed)
      : grammar_(std::move(grammar)), vocabulary_(grammar_->vocabulary()), random_(seed) {}

  // Nothing: too long.
  Result<std::optional<std::string>> Draw() {
    Matcher matcher(grammar_);
    std::string text;
    for (int64_t i = 0; i < kMostTokens; ++i) {
      TW_ASSIGN(const auto mask, matcher.NextMask());
      TW_ASSIGN(const int32_t token, Choose(*mask, matcher.can_end(), i > kTokensBeforeHurry));
      TW_ASSIGN(const bool taken, matcher.Accept(token));
      if (!taken) return base::Internal("a token of the mask is not accepted");
      if (matcher.ended()) return std::optional(text);
      text += vocabulary_.bytes_of(token);
    }
    return std::optional<std::string>();
  }

 private:
  bool Flip(double chance) { return std::uniform_real_distribution<>()(random_) < chance; }

  Result<int32_t> Choose(const Mask& mask, bool can_end, bool hurry) {
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < vocabulary_.size(); ++token) {
      if ((mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0) {
        allowed.push_back(token);
      }
    }
    if (allowed.empty()) return base::Internal("a mask without a token");
    if (can_end && (hurry || Flip(0.3))) return kEnd;
    if (Flip(hurry ? 0.7 : 0.3)) return Ending(allowed);
    return allowed[random_() % allowed.size()];
  }

  int32_t Ending(const std::vector<int32_t>& allowed) {
    for (const char* ending : kEndings) {
      const auto token = static_cast<int32_t>(static_cast<uint8_t>(*ending)) + 1;
      if (std::find(allowed.begin(), allowed.end(), token) != allowed.end()) return token;
    }
    return allowed[random_() % allowed.size()];
  }

  std::shared_ptr<Grammar> grammar_;
  const Vocabulary& vocabulary_;
  std::mt19937_64 random_;
};

void Print(const base::Json& line) {
  std::cout << line.dump(-1, ' ', false, base::Json::error_handler_t::replace) << "\n";
}

Status DrawSamples(const std::filesystem::path& path, int64_t samples, uint64_t seed,
                   const std::shared_ptr<const Vocabulary>& vocabulary) {
  const std::string file = path.filename().string();
  std::ifstream stream(path);
  const base::Json json = base::Json::parse(stream);
  Result<Rules> rules = CompileSchema(json.at("schema"), {}, {});
  if (!rules.ok()) {
    Print({{"file", file}, {"refused", rules.status().message()}});
    return {};
  }
  const auto grammar = Grammar::Create(std::move(rules).value(), vocabulary);
  if (!grammar.ok()) {
    Print({{"file", file}, {"refused", grammar.status().message()}});
    return {};
  }
  Drawer drawer(grammar.value(), seed);
  int64_t unfinished = 0;
  for (int64_t i = 0; i < samples; ++i) {
    TW_ASSIGN(const std::optional<std::string> text, drawer.Draw());
    if (text) Print({{"file", file}, {"text", *text}});
    unfinished += text ? 0 : 1;
  }
  if (unfinished > 0) Print({{"file", file}, {"unfinished", unfinished}});
  return {};
}

int Run(const std::string& directory, int64_t samples, uint64_t seed) {
  const auto vocabulary = Vocabulary::OfBytes(Pieces(), {.end_tokens = {kEnd}});
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    const Status status = DrawSamples(path, samples, seed, vocabulary);
    if (status.ok()) continue;
    std::cerr << path.filename().string() << ": " << status.ToString() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace thalweg::grammar

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: schema_samples DIRECTORY SAMPLES SEED\n";
    return 2;
  }
  return thalweg::grammar::Run(argv[1], std::stoll(argv[2]), std::stoull(argv[3]));
}
