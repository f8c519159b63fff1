#include "grammar/vocabulary_trie.h"

#include <algorithm>
#include <utility>

namespace thalweg::grammar {
namespace {

constexpr ByteRange kTail = {0x80, 0xBF};
constexpr CharacterSequence kCharacterSequences[] = {
    {2, {{{0xC3, 0xDF}, kTail}}},
    {3, {{{0xE0, 0xE0}, {0xA0, 0xBF}, kTail}}},
    {3, {{{0xE1, 0xE1}, {0x80, 0x99}, kTail}}},
    {3, {{{0xE1, 0xE1}, {0x9B, 0xBF}, kTail}}},
    {3, {{{0xE2, 0xE2}, {0x82, 0xBF}, kTail}}},
    {3, {{{0xE3, 0xE3}, {0x80, 0x80}, {0x81, 0xBF}}}},
    {3, {{{0xE3, 0xE3}, {0x81, 0xBF}, kTail}}},
    {3, {{{0xE4, 0xEC}, kTail, kTail}}},
    {3, {{{0xED, 0xED}, {0x80, 0x9F}, kTail}}},
    {3, {{{0xEE, 0xEE}, kTail, kTail}}},
    {3, {{{0xEF, 0xEF}, {0x80, 0xBA}, kTail}}},
    {3, {{{0xEF, 0xEF}, {0xBC, 0xBF}, kTail}}},
    {4, {{{0xF0, 0xF0}, {0x90, 0xBF}, kTail, kTail}}},
    {4, {{{0xF1, 0xF3}, kTail, kTail, kTail}}},
    {4, {{{0xF4, 0xF4}, {0x80, 0x8F}, kTail, kTail}}},
};

bool Begins(const CharacterSequence& sequence, std::string_view text) {
  if (text.size() < static_cast<size_t>(sequence.length)) return false;
  for (size_t i = 0; i < static_cast<size_t>(sequence.length); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < sequence.bytes[i].first || byte > sequence.bytes[i].last) return false;
  }
  return true;
}

// Adds strings in sorted order; the path to the newest one is kept open.
class Builder {
 public:
  void Add(const ByteTrie::Entry& entry) {
    Close(Common(entry.text));
    for (size_t i = open_.size() - 1; i < entry.text.size(); ++i) {
      Open(static_cast<uint8_t>(entry.text[i]));
    }
    previous_ = entry.text;
    trie_.tokens.push_back(entry.token);
    trie_.prefixes.push_back(entry.prefix);
    trie_.nodes[static_cast<size_t>(open_.back())].prefixes |= uint32_t{1} << entry.prefix;
  }

  Builder() { Open(0); }

  ByteTrie Finish() {
    Close(0);
    trie_.nodes[0].skip = Count();
    trie_.nodes.push_back({Count() + 1, Tokens(), 0, 0, 0});
    return std::move(trie_);
  }

 private:
  int32_t Count() const { return static_cast<int32_t>(trie_.nodes.size()); }
  int32_t Tokens() const { return static_cast<int32_t>(trie_.tokens.size()); }

  size_t Common(std::string_view text) const {
    const auto [at, end] =
        std::mismatch(previous_.begin(), previous_.end(), text.begin(), text.end());
    return static_cast<size_t>(at - previous_.begin());
  }

  void Open(uint8_t byte) {
    const auto depth = static_cast<int32_t>(open_.size());
    trie_.deepest = std::max(trie_.deepest, depth);
    open_.push_back(Count());
    trie_.nodes.push_back({0, Tokens(), depth, 0, byte});
  }

  // Closes nodes deeper than `depth`.
  void Close(size_t depth) {
    while (open_.size() > depth + 1) {
      ByteTrie::Node& node = trie_.nodes[static_cast<size_t>(open_.back())];
      node.skip = Count();
      open_.pop_back();
      trie_.nodes[static_cast<size_t>(open_.back())].prefixes |= node.prefixes;
    }
  }

  ByteTrie trie_;
  std::vector<int32_t> open_;  // nodes from the root to the newest string's
  std::string_view previous_;
};

}  // namespace

std::span<const CharacterSequence> CharacterSequences() { return kCharacterSequences; }

ByteTrie ByteTrie::Of(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  Builder builder;
  for (const Entry& entry : entries) builder.Add(entry);
  return builder.Finish();
}

bool ByteTrie::HasLonger(std::string_view bytes) const {
  size_t parent = 0;
  for (const char c : bytes) {
    const auto end = static_cast<size_t>(nodes[parent].skip);
    size_t child = parent + 1;
    while (child < end && nodes[child].byte != static_cast<uint8_t>(c))
      child = static_cast<size_t>(nodes[child].skip);
    if (child >= end) return false;
    parent = child;
  }
  return static_cast<size_t>(nodes[parent].skip) > parent + 1;
}

int32_t Alphabet::CharacterBytes(std::string_view text) const {
  if (text.empty()) return 0;
  if (static_cast<uint8_t>(text[0]) < 0x80) return ascii.Has(static_cast<uint8_t>(text[0])) ? 1 : 0;
  if (!beyond_ascii) return 0;
  for (const CharacterSequence& sequence : kCharacterSequences) {
    if (Begins(sequence, text)) return sequence.length;
  }
  return 0;
}

}  // namespace thalweg::grammar
