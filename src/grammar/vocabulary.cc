#include "grammar/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "grammar/token_bits.h"
#include "grammar/vocabulary_trie.h"

namespace thalweg::grammar {

struct Vocabulary::Data {
  std::vector<std::string> bytes;
  std::vector<int32_t> end_tokens;
  int32_t size = 0;
};

namespace {

// Tokens that may be looked at one by one because of one exceptional byte.
constexpr size_t kMostExceptional = 3000;

using Entries = std::vector<ByteTrie::Entry>;

ByteSet Without(ByteSet set, std::string_view bytes) {
  for (const char byte : bytes) {
    ByteSet one;
    one.Add(static_cast<uint8_t>(byte));
    set = set & ~one;
  }
  return set;
}

// From the largest to the smallest: the first one that a state takes alike decides most. The quote
// and the backslash are left out of text because they mean something else in most notations.
std::array<Alphabet, kAlphabets> EmptyAlphabets() {
  const ByteSet letters = ByteSet::Range('a', 'z');
  const ByteSet word = letters | ByteSet::Range('A', 'Z') | ByteSet::Range('0', '9');
  const ByteSet text = Without(ByteSet::Range(' ', '~'), "\"\\");
  std::array<Alphabet, kAlphabets> all;
  const std::pair<ByteSet, bool> kinds[kAlphabets] = {
      {text, true},  {Without(text, " "), true},
      {text, false}, {word | ByteSet::Range(' ', ' '), false},
      {word, false}, {letters, false}};
  for (size_t i = 0; i < kAlphabets; ++i) {
    all[i].ascii = kinds[i].first;
    all[i].beyond_ascii = kinds[i].second;
  }
  return all;
}

// Sorts tokens into the parts of one alphabet.
class AlphabetBuilder {
 public:
  AlphabetBuilder(int64_t mask_words, Alphabet* alphabet) : alphabet_(*alphabet) {
    alphabet_.up_to.assign(Alphabet::kMost + 2,
                           std::vector<uint32_t>(static_cast<size_t>(mask_words)));
  }

  void Add(const ByteTrie::Entry& entry) {
    int32_t characters = 0;
    std::string_view rest = entry.text;
    while (const int32_t bytes = alphabet_.CharacterBytes(rest)) {
      rest.remove_prefix(static_cast<size_t>(bytes));
      ++characters;
    }
    const int32_t counted = std::min(characters, Alphabet::kMost + 1);
    if (rest.empty()) {
      SetToken(&alphabet_.up_to[static_cast<size_t>(counted)], entry.token);
    } else {
      rest_.push_back({rest, entry.token, static_cast<uint8_t>(counted)});
    }
    if (characters > Alphabet::kMost) longer_.push_back(entry);
  }

  void Finish() {
    for (size_t k = 1; k < alphabet_.up_to.size(); ++k) {
      for (size_t w = 0; w < alphabet_.up_to[k].size(); ++w) {
        alphabet_.up_to[k][w] |= alphabet_.up_to[k - 1][w];
      }
    }
    alphabet_.rest = ByteTrie::Of(std::move(rest_));
    alphabet_.longer = ByteTrie::Of(std::move(longer_));
  }

 private:
  Alphabet& alphabet_;
  Entries rest_;
  Entries longer_;
};

bool MayBeException(uint8_t byte) { return byte > ' ' && byte < 0x7F; }

void AddExceptions(const Entries& entries, Vocabulary::Trie* trie) {
  std::array<Entries, 128> containing;
  for (const ByteTrie::Entry& entry : entries) {
    ByteSet seen;
    for (const char c : entry.text) {
      const auto byte = static_cast<uint8_t>(c);
      if (!MayBeException(byte) || seen.Has(byte)) continue;
      seen.Add(byte);
      containing[byte].push_back(entry);
    }
  }
  for (size_t byte = 0; byte < 128; ++byte) {
    if (!MayBeException(static_cast<uint8_t>(byte))) continue;
    if (containing[byte].size() > kMostExceptional) continue;
    trie->exceptions.Add(static_cast<uint8_t>(byte));
    trie->containing[byte] = ByteTrie::Of(std::move(containing[byte]));
  }
}

void CountFirstBytes(Vocabulary::Trie* trie) {
  const std::vector<ByteTrie::Node>& nodes = trie->whole.nodes;
  for (int32_t i = 1; i < trie->whole.size(); i = nodes[static_cast<size_t>(i)].skip) {
    const ByteTrie::Node& node = nodes[static_cast<size_t>(i)];
    trie->nodes_from[node.byte] = node.skip - i;
  }
}

std::unique_ptr<Vocabulary::Trie> MakeTrie(const std::vector<std::string>& bytes,
                                           int64_t mask_words) {
  Entries entries;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!bytes[i].empty()) entries.push_back({bytes[i], static_cast<int32_t>(i), 0});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.text < b.text; });
  auto trie = std::make_unique<Vocabulary::Trie>();
  trie->alphabets = EmptyAlphabets();
  for (Alphabet& alphabet : trie->alphabets) {
    AlphabetBuilder builder(mask_words, &alphabet);
    for (const ByteTrie::Entry& entry : entries) builder.Add(entry);
    builder.Finish();
  }
  AddExceptions(entries, trie.get());
  trie->whole = ByteTrie::Of(std::move(entries));
  CountFirstBytes(trie.get());
  return trie;
}

}  // namespace

Vocabulary::Vocabulary() : data_(std::make_unique<Data>()) {}
Vocabulary::~Vocabulary() = default;

std::shared_ptr<const Vocabulary> Vocabulary::Of(const text::Tokenizer& tokenizer,
                                                 Options options) {
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.IsSpecial(token)) continue;
    bytes[static_cast<size_t>(token)] = std::string(tokenizer.TokenBytes(token));
  }
  return OfBytes(std::move(bytes), std::move(options));
}

std::shared_ptr<const Vocabulary> Vocabulary::OfBytes(std::vector<std::string> bytes,
                                                      Options options) {
  std::shared_ptr<Vocabulary> vocabulary(new Vocabulary);
  Data& data = *vocabulary->data_;
  data.size = std::max(options.size, static_cast<int32_t>(bytes.size()));
  data.bytes = std::move(bytes);
  data.bytes.resize(static_cast<size_t>(data.size));
  data.end_tokens = std::move(options.end_tokens);
  for (const int32_t token : data.end_tokens) TW_CHECK(token >= 0 && token < data.size);
  vocabulary->trie_ = MakeTrie(data.bytes, vocabulary->mask_words());
  return vocabulary;
}

int32_t Vocabulary::size() const { return data_->size; }
int64_t Vocabulary::mask_words() const { return base::CeilDiv<int64_t>(data_->size, 32); }
std::string_view Vocabulary::bytes_of(int32_t token) const {
  return data_->bytes[static_cast<size_t>(token)];
}
bool Vocabulary::special(int32_t token) const { return bytes_of(token).empty(); }
std::span<const int32_t> Vocabulary::end_tokens() const { return data_->end_tokens; }
bool Vocabulary::HasLonger(std::string_view bytes) const { return trie_->whole.HasLonger(bytes); }

}  // namespace thalweg::grammar
