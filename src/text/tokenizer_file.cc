#include "text/tokenizer_file.h"

#include <fmt/format.h>

#include <unordered_set>

namespace thalweg::text {
namespace {

Status CheckSpelling(const JsonField& field, std::string_view token) {
  if (token.empty()) return field.Wrong("an empty token");
  if (token.size() <= kMaxTokenBytes) return {};
  return field.Wrong(
      fmt::format("a token of {} bytes; the limit is {}", token.size(), kMaxTokenBytes));
}

Status AddToken(const JsonField& vocab, const std::string& token, const base::Json& value,
                BpeFile& model) {
  const JsonField field(value, fmt::format("{}[\"{}\"]", vocab.path(), token));
  TW_TRY(CheckSpelling(field, token));
  TW_ASSIGN(const int32_t id, field.AsId(kMaxTokenId));
  if (static_cast<size_t>(id) >= model.tokens.size()) model.tokens.resize(id + 1);
  std::string& slot = model.tokens[id];
  if (!slot.empty()) return field.Wrong(fmt::format("id {} is taken by \"{}\" already", id, slot));
  slot = token;
  model.ids.emplace(token, id);
  return {};
}

Status ReadVocab(const JsonField& vocab, BpeFile& model) {
  TW_TRY(vocab.RequireObject());
  for (const auto& [token, value] : vocab.value().items()) {
    TW_TRY(AddToken(vocab, token, value, model));
  }
  return {};
}

// The two sides of a merge: ["a", "b"] or "a b".
Result<std::pair<std::string, std::string>> MergeSides(const JsonField& merge) {
  if (merge.value().is_array() && merge.value().size() == 2) {
    TW_ASSIGN(std::string left, merge.Element(0).AsString());
    TW_ASSIGN(std::string right, merge.Element(1).AsString());
    return std::pair(std::move(left), std::move(right));
  }
  if (!merge.value().is_string())
    return merge.Wrong("must be two tokens, [\"a\", \"b\"] or \"a b\"");
  const std::string text = merge.value().get<std::string>();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    return merge.Wrong("must be two tokens with one space between them");
  }
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Result<int32_t> IdOf(const JsonField& merge, const BpeFile& model, const std::string& token) {
  const auto at = model.ids.find(token);
  if (at != model.ids.end()) return at->second;
  return merge.Wrong(fmt::format("\"{}\" is not in model.vocab", token));
}

Status AddMerge(const JsonField& field, BpeFile& model) {
  TW_ASSIGN(const auto sides, MergeSides(field));
  Merge merge;
  TW_ASSIGN(merge.left, IdOf(field, model, sides.first));
  TW_ASSIGN(merge.right, IdOf(field, model, sides.second));
  TW_ASSIGN(merge.result, IdOf(field, model, sides.first + sides.second));
  model.merges.push_back(merge);
  return {};
}

Status ReadMerges(const JsonField& merges, BpeFile& model) {
  TW_TRY(merges.RequireArray());
  for (size_t i = 0; i < merges.value().size(); ++i) {
    const base::Json& value = merges.value()[i];
    // Files converted from merges.txt may carry its first line along.
    if (value.is_string() && value.get_ref<const std::string&>().starts_with("#version")) continue;
    TW_TRY(AddMerge(merges.Element(i), model));
  }
  return {};
}

// Variants of BPE that no tokenizer of this family uses.
Status RefuseVariants(const JsonField& model) {
  TW_ASSIGN(const std::string type, model.StringOr("type", "BPE"));
  if (type != "BPE") return model.NotSupported(fmt::format("type \"{}\"; only BPE is", type));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    TW_ASSIGN(const std::string value, model.StringOr(name, ""));
    if (!value.empty()) return model.NotSupported(fmt::format("\"{}\" is not supported", name));
  }
  TW_ASSIGN(const std::optional<JsonField> dropout, model.Optional("dropout"));
  if (dropout && dropout->value() != 0) return dropout->NotSupported("merges are never left out");
  return {};
}

Result<AddedToken> ReadAddedToken(const JsonField& field) {
  AddedToken token;
  TW_ASSIGN(const JsonField id, field.Member("id"));
  TW_ASSIGN(token.id, id.AsId(kMaxTokenId));
  TW_ASSIGN(const JsonField content, field.Member("content"));
  TW_ASSIGN(token.content, content.AsString());
  TW_TRY(CheckSpelling(content, token.content));
  TW_ASSIGN(token.special, field.BoolOr("special", false));
  TW_ASSIGN(token.normalized, field.BoolOr("normalized", !token.special));
  TW_ASSIGN(token.lstrip, field.BoolOr("lstrip", false));
  TW_ASSIGN(token.rstrip, field.BoolOr("rstrip", false));
  TW_ASSIGN(token.single_word, field.BoolOr("single_word", false));
  return token;
}

Status CheckAgainstModel(const JsonField& field, const AddedToken& token, const BpeFile& model) {
  const auto id = static_cast<size_t>(token.id);
  if (id < model.tokens.size() && !model.tokens[id].empty() && model.tokens[id] != token.content) {
    return field.Wrong(fmt::format("id {} is \"{}\" in model.vocab and \"{}\" here", token.id,
                                   model.tokens[id], token.content));
  }
  const auto known = model.ids.find(token.content);
  if (known != model.ids.end() && known->second != token.id) {
    return field.Wrong(fmt::format("\"{}\" has id {} in model.vocab and {} here", token.content,
                                   known->second, token.id));
  }
  return {};
}

Status RefuseMergedTokens(const std::vector<AddedToken>& added, const BpeFile& model) {
  std::unordered_set<int32_t> ids;
  for (const AddedToken& token : added) ids.insert(token.id);
  for (size_t i = 0; i < model.merges.size(); ++i) {
    if (!ids.contains(model.merges[i].result)) continue;
    return base::Unsupported(fmt::format(
        "model.merges[{}]: makes the added token \"{}\", so that ordinary text could become it", i,
        model.tokens[model.merges[i].result]));
  }
  return {};
}

}  // namespace

Result<BpeFile> ReadBpe(const JsonField& model) {
  TW_TRY(model.RequireObject());
  TW_TRY(RefuseVariants(model));
  BpeFile file;
  TW_ASSIGN(const JsonField vocab, model.Member("vocab"));
  TW_TRY(ReadVocab(vocab, file));
  TW_ASSIGN(const JsonField merges, model.Member("merges"));
  TW_TRY(ReadMerges(merges, file));
  TW_ASSIGN(file.fuse_unk, model.BoolOr("fuse_unk", false));
  TW_ASSIGN(file.byte_fallback, model.BoolOr("byte_fallback", false));
  TW_ASSIGN(file.ignore_merges, model.BoolOr("ignore_merges", false));
  TW_ASSIGN(const std::optional<JsonField> unk, model.Optional("unk_token"));
  if (unk) {
    TW_ASSIGN(const std::string token, unk->AsString());
    TW_ASSIGN(file.unk, IdOf(*unk, file, token));
  }
  return file;
}

Result<std::vector<AddedToken>> ReadAddedTokens(const JsonField& root, const BpeFile& model) {
  std::vector<AddedToken> added;
  TW_ASSIGN(const std::optional<JsonField> list, root.Optional("added_tokens"));
  if (!list) return added;
  TW_TRY(list->RequireArray());
  std::unordered_set<int32_t> ids;
  std::unordered_set<std::string> contents;
  for (size_t i = 0; i < list->value().size(); ++i) {
    const JsonField field = list->Element(i);
    TW_ASSIGN(AddedToken token, ReadAddedToken(field));
    if (!ids.insert(token.id).second) {
      return field.Wrong(fmt::format("id {} is used by an added token before", token.id));
    }
    if (!contents.insert(token.content).second) {
      return field.Wrong(fmt::format("\"{}\" is an added token already", token.content));
    }
    TW_TRY(CheckAgainstModel(field, token, model));
    added.push_back(std::move(token));
  }
  TW_TRY(RefuseMergedTokens(added, model));
  return added;
}

}  // namespace thalweg::text
