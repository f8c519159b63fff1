#include "text/added_tokens.h"

#include <algorithm>

#include "text/char_classes.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

const icu::UnicodeSet& Spaces() {
  static const icu::UnicodeSet set = SpaceSet();
  return set;
}

const icu::UnicodeSet& WordChars() {
  static const icu::UnicodeSet set = WordSet();
  return set;
}

bool StartsWith(const icu::UnicodeSet& set, std::string_view text) {
  return !text.empty() && set.contains(static_cast<UChar32>(DecodeUtf8(text).code_point));
}

// Where the last character of `text` begins; `text` is well-formed and not empty.
size_t LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool EndsWith(const icu::UnicodeSet& set, std::string_view text) {
  return !text.empty() && StartsWith(set, text.substr(LastCharacter(text)));
}

size_t SkipSpacesForward(std::string_view text, size_t pos) {
  while (StartsWith(Spaces(), text.substr(pos))) pos += DecodeUtf8(text.substr(pos)).length;
  return pos;
}

size_t SkipSpacesBackward(std::string_view text, size_t pos, size_t stop) {
  while (pos > stop && EndsWith(Spaces(), text.substr(0, pos))) {
    pos = LastCharacter(text.substr(0, pos));
  }
  return pos;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (const bool normalized : {false, true}) {
    std::vector<std::pair<std::string_view, int32_t>> keys;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].normalized == normalized) {
        keys.emplace_back(tokens_[i].content, static_cast<int32_t>(i));
      }
    }
    if (!keys.empty()) passes_.emplace_back(std::move(keys));
  }
}

void AddedTokens::Split(std::string_view text, const Handler& handler) const {
  SplitBy(0, text, handler);
}

bool AddedTokens::FindNext(const ByteTrie& trie, std::string_view text, size_t from,
                           Match& match) const {
  for (size_t pos = from; pos < text.size(); ++pos) {
    const ByteTrie::Hit hit = trie.LongestPrefix(text.substr(pos));
    if (hit.value == ByteTrie::kNone) continue;
    match = {pos, pos + hit.length, &tokens_[hit.value]};
    return true;
  }
  return false;
}

void AddedTokens::SplitBy(size_t pass, std::string_view text, const Handler& handler) const {
  if (text.empty()) return;
  if (pass == passes_.size()) return handler.on_text(text);
  size_t done = 0;
  size_t from = 0;
  Match match;
  while (FindNext(passes_[pass], text, from, match)) {
    const AddedToken& token = *match.token;
    from = match.end;
    const bool in_word = EndsWith(WordChars(), text.substr(0, match.start)) ||
                         StartsWith(WordChars(), text.substr(match.end));
    if (token.single_word && in_word) continue;
    size_t start = match.start;
    if (token.lstrip) start = SkipSpacesBackward(text, start, done);
    SplitBy(pass + 1, text.substr(done, start - done), handler);
    handler.on_token(token.id);
    done = token.rstrip ? SkipSpacesForward(text, match.end) : match.end;
    from = done;
  }
  SplitBy(pass + 1, text.substr(done), handler);
}

}  // namespace thalweg::text
