#include "checkpoint/synth_tokenizer.h"

#include <algorithm>
#include <unordered_set>

#include "base/json.h"
#include "checkpoint/token_map.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace thalweg::checkpoint {
namespace {

using base::Json;

struct SpecialToken {
  const char* content;
  bool special;
  int64_t released_id;  // taken where the vocabulary is large enough; -1: any
};
constexpr SpecialToken kChatTokens[] = {
    {"<｜User｜>", true, 128803}, {"<｜Assistant｜>", true, 128804},
    {"<think>", false, 128821},   {"</think>", false, 128822},
    {"｜DSML｜", false, 128825},  {"<｜latest_reminder｜>", true, -1},
};

constexpr int64_t kWordLetters = 6;
constexpr int64_t kSpellings = int64_t{1} << kWordLetters;  // capital or small, letter by letter

// Filler word number `word` in one of its spellings; all spellings fold to the same key. The word
// begins with a space, as most words of a real vocabulary do.
std::string Filler(int64_t word, int64_t spelling) {
  std::string out = " ";
  for (int64_t i = 0; i < kWordLetters; ++i, word /= 26) {
    const char first = (spelling >> i & 1) != 0 ? 'A' : 'a';
    out.push_back(static_cast<char>(first + word % 26));
  }
  return text::ToAlphabet(out);
}

class VocabularyMaker {
 public:
  explicit VocabularyMaker(const Config& config)
      : c_(config), added_(static_cast<size_t>(config.vocab_size), kPlain) {
    out_.tokens.resize(static_cast<size_t>(config.vocab_size));
  }

  Result<std::optional<SyntheticVocabulary>> Make() {
    PlaceConfigTokens();
    const bool fits = PlaceChatTokens() && PlaceBytes();
    if (!fits) return std::optional<SyntheticVocabulary>();
    TW_TRY(PlaceFillers());
    for (size_t id = 0; id < added_.size(); ++id) {
      if (added_[id] == kPlain) continue;
      out_.added.push_back(static_cast<int64_t>(id));
      out_.special.push_back(added_[id] == kSpecial);
    }
    return std::optional<SyntheticVocabulary>(std::move(out_));
  }

 private:
  enum Kind : uint8_t { kPlain, kAdded, kSpecial };

  bool Free(int64_t id) const {
    return id >= 0 && id < c_.vocab_size && out_.tokens[static_cast<size_t>(id)].empty();
  }

  void Place(int64_t id, std::string token, Kind kind) {
    out_.tokens[static_cast<size_t>(id)] = std::move(token);
    added_[static_cast<size_t>(id)] = kind;
  }

  // Tokens whose ids the config states. Where it states one id twice the first name stays.
  void PlaceConfigTokens() {
    const std::pair<int64_t, const char*> tokens[] = {
        {c_.bos_token_id, "<｜begin▁of▁sentence｜>"},
        {c_.eos_token_id, "<｜end▁of▁sentence｜>"},
        {c_.pad_token_id, "<｜▁pad▁｜>"},
        {c_.image_token_id, "<｜deepseek_image｜>"},
    };
    for (const auto& [id, token] : tokens) {
      if (Free(id)) Place(id, token, kSpecial);
    }
  }

  // Chat tokens at their released ids, or at the highest free ones. The noise token is the system
  // token, as in the release.
  bool PlaceChatTokens() {
    const int64_t noise = c_.HasDraft() ? c_.dspark_noise_token_id : -1;
    if (!PlaceHigh("<｜System｜>", kSpecial, noise)) return false;
    for (const SpecialToken& token : kChatTokens) {
      const Kind kind = token.special ? kSpecial : kAdded;
      if (!PlaceHigh(token.content, kind, token.released_id)) return false;
    }
    return true;
  }

  bool PlaceHigh(const char* content, Kind kind, int64_t wish) {
    int64_t id = Free(wish) ? wish : c_.vocab_size - 1;
    while (id >= 0 && !Free(id)) --id;
    if (id >= 0) Place(id, content, kind);
    return id >= 0;
  }

  // The next free id from `cursor_` on; vocab_size when there is none.
  int64_t NextFree() {
    while (cursor_ < c_.vocab_size && !Free(cursor_)) ++cursor_;
    return cursor_;
  }

  bool PlaceBytes() {
    for (int byte = 0; byte < 256; ++byte) {
      const int64_t id = NextFree();
      if (id == c_.vocab_size) return false;
      Place(id, text::ToAlphabet(std::string(1, static_cast<char>(byte))), kPlain);
    }
    return true;
  }

  // Keys of what is placed so far (spec/model.md 2.3).
  Result<int64_t> CountKeys() const {
    std::unordered_set<std::string> keys;
    for (size_t id = 0; id < added_.size(); ++id) {
      const std::string& token = out_.tokens[id];
      if (token.empty()) continue;
      const std::string bytes =
          added_[id] == kPlain ? text::FromAlphabet(token).value_or("") : token;
      TW_ASSIGN(const std::string key,
                text::IsValidUtf8(bytes) ? NormalizeTokenText(bytes) : Result<std::string>(token));
      keys.insert(key.empty() ? bytes : key);
    }
    return static_cast<int64_t>(keys.size());
  }

  Status PlaceFillers() {
    TW_ASSIGN(const int64_t keys, CountKeys());
    const int64_t fillers = std::ranges::count(out_.tokens, std::string());
    const int64_t wanted = c_.HasEngram() ? c_.engram_compressed_vocab_size - keys : fillers;
    out_.folds_as_configured = wanted >= 0 && wanted <= fillers && fillers <= wanted * kSpellings;
    const int64_t words = out_.folds_as_configured ? wanted : fillers;
    for (int64_t i = 0; i < fillers; ++i) {
      Place(NextFree(), Filler(i % words, i / words), kPlain);
    }
    return {};
  }

  const Config& c_;
  SyntheticVocabulary out_;
  std::vector<Kind> added_;  // [vocab_size]
  int64_t cursor_ = 0;
};

Json AddedToken(int64_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// The released splitting rules.
Json PreTokenizer() {
  const auto split = [](const char* pattern) {
    return Json{{"type", "Split"},
                {"pattern", {{"Regex", pattern}}},
                {"behavior", "Isolated"},
                {"invert", false}};
  };
  Json steps = Json::array();
  steps.push_back(split(R"(\p{N}{1,3})"));
  steps.push_back(split("[一-龥぀-ゟ゠-ヿ]+"));
  steps.push_back(
      split(R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?)re"
            R"re([\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"));
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", true},
          {"trim_offsets", true},
          {"use_regex", true}};
}

// Plain tokens only: added ones stand in their own list.
Json Model(const SyntheticVocabulary& vocabulary) {
  Json vocab = Json::object();
  auto& members = vocab.get_ref<Json::object_t&>();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (std::ranges::binary_search(vocabulary.added, static_cast<int64_t>(id))) continue;
    // emplace_back of the underlying list: tokens are distinct, and a search would be quadratic.
    members.Json::object_t::Container::emplace_back(vocabulary.tokens[id], id);
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"vocab", std::move(vocab)},
          {"merges", Json::array()}};
}

}  // namespace

Result<std::optional<SyntheticVocabulary>> MakeVocabulary(const Config& config) {
  return VocabularyMaker(config).Make();
}

std::string TokenizerJson(const SyntheticVocabulary& vocabulary) {
  Json added = Json::array();
  for (size_t i = 0; i < vocabulary.added.size(); ++i) {
    const int64_t id = vocabulary.added[i];
    added.push_back(
        AddedToken(id, vocabulary.tokens[static_cast<size_t>(id)], vocabulary.special[i]));
  }
  const Json root = {{"version", "1.0"},          {"truncation", nullptr},
                     {"padding", nullptr},        {"added_tokens", std::move(added)},
                     {"normalizer", nullptr},     {"pre_tokenizer", PreTokenizer()},
                     {"post_processor", nullptr}, {"decoder", ByteLevel()},
                     {"model", Model(vocabulary)}};
  return root.dump() + "\n";
}

std::string TokenizerConfigJson(const Config& config) {
  const Json root = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"bos_token", "<｜begin▁of▁sentence｜>"},
                     {"eos_token", "<｜end▁of▁sentence｜>"},
                     {"pad_token", "<｜▁pad▁｜>"},
                     {"add_bos_token", false},
                     {"add_eos_token", false},
                     {"clean_up_tokenization_spaces", false},
                     {"model_max_length", config.max_position_embeddings}};
  return root.dump(2) + "\n";
}

std::string MadeUpTokenMap(const Config& config) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(config.vocab_size) * 4);
  for (int64_t id = 0; id < config.vocab_size; ++id) {
    const int64_t compressed = id % config.engram_compressed_vocab_size;
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(compressed >> shift & 255));
    }
  }
  return bytes;
}

}  // namespace thalweg::checkpoint
