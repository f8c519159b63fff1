#include "text/bpe_model.h"

#include <fmt/format.h>

#include <array>
#include <unordered_set>

#include "text/bpe_merges.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

constexpr int32_t kNoToken = -1;

int32_t FindOr(const std::unordered_map<std::string, int32_t>& ids, const std::string& token) {
  const auto at = ids.find(token);
  return at == ids.end() ? kNoToken : at->second;
}

// The bytes of each token that the alphabet spells, empty for the others.
std::vector<std::string> BytesOfTokens(const BpeFile& file) {
  std::vector<std::string> bytes;
  for (const std::string& token : file.tokens) {
    bytes.push_back(FromAlphabet(token).value_or(std::string()));
  }
  return bytes;
}

// What a piece must be for a token to be the whole of it.
ByteTrie WholePieces(const BpeFile& file, const std::unordered_set<int32_t>& added,
                     bool byte_level) {
  const std::vector<std::string> spelled = byte_level ? BytesOfTokens(file) : file.tokens;
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t id = 0; id < spelled.size(); ++id) {
    const bool is_added = added.contains(static_cast<int32_t>(id));
    if (!spelled[id].empty() && !is_added) keys.emplace_back(spelled[id], static_cast<int32_t>(id));
  }
  return ByteTrie(std::move(keys));
}

}  // namespace

Result<BpeModel> BpeModel::Build(const BpeFile& file, std::span<const AddedToken> added,
                                 bool byte_level) {
  BpeModel model;
  model.byte_level_ = byte_level;
  model.unk_ = file.unk;
  model.fuse_unk_ = file.fuse_unk;
  model.merges_ = MergeTable(file.merges);
  std::unordered_set<int32_t> added_ids;
  for (const AddedToken& token : added) added_ids.insert(token.id);
  for (size_t id = 0; id < file.tokens.size(); ++id) {
    const std::string& token = file.tokens[id];
    if (token.empty() || DecodeUtf8(token).length != token.size()) continue;
    if (!added_ids.contains(static_cast<int32_t>(id))) model.characters_.emplace(token, id);
  }
  if (file.ignore_merges) model.whole_ = WholePieces(file, added_ids, byte_level);
  if (file.byte_fallback) model.BuildFallback(file);
  if (byte_level) TW_TRY(model.BuildSearch(file));
  return model;
}

// The search needs a token for every byte; a vocabulary that lacks some is encoded by merging.
Status BpeModel::BuildSearch(const BpeFile& file) {
  std::array<int32_t, 256> byte_ids;
  for (uint32_t byte = 0; byte < byte_ids.size(); ++byte) {
    std::string character;
    AppendUtf8(AlphabetChar(static_cast<uint8_t>(byte)), character);
    byte_ids[byte] = FindOr(characters_, character);
    if (byte_ids[byte] != kNoToken) continue;
    if (!file.ids.contains(character)) return {};
    return base::Unsupported(fmt::format(
        "added_tokens: \"{}\", which is how model.vocab spells byte {}", character, byte));
  }
  search_ = BpeSearch::Build(BytesOfTokens(file), byte_ids, file.merges);
  return {};
}

void BpeModel::BuildFallback(const BpeFile& file) {
  for (int byte = 0; byte < 256; ++byte) {
    fallback_.push_back(FindOr(file.ids, fmt::format("<0x{:02X}>", byte)));
  }
}

void BpeModel::Encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (whole_) {
    const int32_t id = whole_->Find(piece);
    if (id != ByteTrie::kNone) return ids.push_back(id);
  }
  if (search_) return search_->Encode(piece, ids);
  EncodeByMerging(piece, ids);
}

void BpeModel::EncodeByMerging(std::string_view piece, std::vector<int32_t>& ids) const {
  std::vector<int32_t> symbols;
  AddSymbols(byte_level_ ? ToAlphabet(piece) : piece, symbols);
  ApplyMerges(merges_, symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

// One symbol per character; what the vocabulary lacks is its bytes, the unknown token, or nothing.
void BpeModel::AddSymbols(std::string_view piece, std::vector<int32_t>& symbols) const {
  bool after_unknown = false;
  while (!piece.empty()) {
    const std::string character(piece.substr(0, DecodeUtf8(piece).length));
    piece.remove_prefix(character.size());
    const int32_t id = FindOr(characters_, character);
    if (id != kNoToken) {
      symbols.push_back(id);
      after_unknown = false;
    } else if (AddFallbackBytes(character, symbols)) {
      after_unknown = false;
    } else if (unk_) {
      if (!after_unknown || !fuse_unk_) symbols.push_back(*unk_);
      after_unknown = true;
    }
  }
}

bool BpeModel::AddFallbackBytes(std::string_view character, std::vector<int32_t>& symbols) const {
  if (fallback_.empty()) return false;
  const size_t before = symbols.size();
  for (const char byte : character) {
    const int32_t id = fallback_[static_cast<uint8_t>(byte)];
    if (id == kNoToken) {
      symbols.resize(before);
      return false;
    }
    symbols.push_back(id);
  }
  return true;
}

}  // namespace thalweg::text
