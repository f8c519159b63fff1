#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/json.h"
#include "base/mapped_file.h"
#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"

namespace thalweg::text {

struct Tokenizer::Impl {
  PreTokenizer pre_tokenizer;
  std::optional<BpeModel> model;
  AddedTokens added;
  std::unordered_map<std::string, int32_t> added_ids;
  std::vector<std::string> spelling;  // [id]
  std::vector<std::string> bytes;     // [id]
  std::vector<bool> is_added;         // [id]
  std::vector<bool> is_special;       // [id]

  bool Knows(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < spelling.size(); }
  void FillTables(const BpeFile& file, const std::vector<AddedToken>& tokens,
                  const TokenDecoder& decoder);
  void EncodeText(std::string_view text, std::vector<int32_t>& ids) const;
};

namespace {

// A Sequence of nothing is how some files write "no normalizer".
Status RefuseNormalizer(const JsonField& field) {
  TW_ASSIGN(const JsonField type_field, field.Member("type"));
  TW_ASSIGN(const std::string type, type_field.AsString());
  if (type != "Sequence") {
    return type_field.NotSupported(fmt::format("\"{}\"; no normalizer is", type));
  }
  TW_ASSIGN(const JsonField list, field.Member("normalizers"));
  TW_TRY(list.RequireArray());
  for (size_t i = 0; i < list.value().size(); ++i) TW_TRY(RefuseNormalizer(list.Element(i)));
  return {};
}

// The member, or JSON null in its place: the parsers decide what null means.
Result<JsonField> MemberOrNull(const JsonField& root, const char* name) {
  static const base::Json null;
  TW_ASSIGN(std::optional<JsonField> member, root.Optional(name));
  return member ? *std::move(member) : JsonField(null, name);
}

class BpeSink : public PieceSink {
 public:
  BpeSink(const BpeModel& model, std::vector<int32_t>& ids) : model_(model), ids_(ids) {}
  void Take(std::string_view piece) override { model_.Encode(piece, ids_); }

 private:
  const BpeModel& model_;
  std::vector<int32_t>& ids_;
};

}  // namespace

void Tokenizer::Impl::FillTables(const BpeFile& file, const std::vector<AddedToken>& tokens,
                                 const TokenDecoder& decoder) {
  spelling = file.tokens;
  for (const AddedToken& token : tokens) {
    const auto needed = static_cast<size_t>(token.id) + 1;
    if (spelling.size() < needed) spelling.resize(needed);
    spelling[token.id] = token.content;
    added_ids.emplace(token.content, token.id);
  }
  for (const std::string& token : spelling) bytes.push_back(decoder.Bytes(token));
  is_added.resize(spelling.size());
  is_special.resize(spelling.size());
  for (const AddedToken& token : tokens) {
    is_added[token.id] = true;
    is_special[token.id] = token.special;
  }
}

void Tokenizer::Impl::EncodeText(std::string_view text, std::vector<int32_t>& ids) const {
  BpeSink sink(*model, ids);
  pre_tokenizer.Split(text, sink);
}

Result<Tokenizer> Tokenizer::Load(const std::filesystem::path& tokenizer_json) {
  TW_ASSIGN(const std::string json, base::ReadFile(tokenizer_json, kMaxTokenizerFileBytes));
  Result<Tokenizer> tokenizer = Parse(json);
  if (!tokenizer.ok()) return tokenizer.status().WithContext(tokenizer_json.string());
  return tokenizer;
}

Result<Tokenizer> Tokenizer::Parse(std::string_view json) {
  TW_ASSIGN(const base::Json document, base::ParseJson(json, "the tokenizer"));
  const JsonField root(document, "");
  if (!document.is_object()) return base::InvalidArgument("the tokenizer is no JSON object");
  TW_ASSIGN(const std::optional<JsonField> normalizer, root.Optional("normalizer"));
  if (normalizer) TW_TRY(RefuseNormalizer(*normalizer));
  TW_ASSIGN(const JsonField model, root.Member("model"));
  TW_ASSIGN(const BpeFile file, ReadBpe(model));
  TW_ASSIGN(std::vector<AddedToken> added, ReadAddedTokens(root, file));
  TW_ASSIGN(const JsonField pre_tokenizer, MemberOrNull(root, "pre_tokenizer"));
  TW_ASSIGN(const JsonField decoder_field, MemberOrNull(root, "decoder"));
  TW_ASSIGN(const TokenDecoder decoder, TokenDecoder::Parse(decoder_field));

  auto impl = std::make_unique<Impl>();
  TW_ASSIGN(impl->pre_tokenizer, PreTokenizer::Parse(pre_tokenizer));
  TW_ASSIGN(impl->model, BpeModel::Build(file, added, impl->pre_tokenizer.byte_level()));
  impl->FillTables(file, added, decoder);
  impl->added = AddedTokens(std::move(added));
  return Tokenizer(std::move(impl));
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->spelling.size()); }

std::vector<int32_t> Tokenizer::Encode(std::string_view text, Specials specials) const {
  std::vector<int32_t> ids;
  EncodeTo(text, specials, ids);
  return ids;
}

void Tokenizer::EncodeTo(std::string_view text, Specials specials,
                         std::vector<int32_t>& ids) const {
  if (!IsValidUtf8(text)) return EncodeTo(RepairUtf8(text), specials, ids);
  const auto on_text = [&](std::string_view part) { impl_->EncodeText(part, ids); };
  if (specials == Specials::kAsText) return on_text(text);
  impl_->added.Split(text, {on_text, [&](int32_t id) { ids.push_back(id); }});
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_specials) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_specials || !IsSpecial(id)) bytes.append(TokenBytes(id));
  }
  return IsValidUtf8(bytes) ? bytes : RepairUtf8(bytes);
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  return impl_->Knows(id) ? std::string_view(impl_->bytes[id]) : std::string_view();
}

std::string Tokenizer::RawToken(int32_t id) const {
  return impl_->Knows(id) ? impl_->spelling[id] : std::string();
}

bool Tokenizer::IsSpecial(int32_t id) const { return impl_->Knows(id) && impl_->is_special[id]; }

bool Tokenizer::IsAdded(int32_t id) const { return impl_->Knows(id) && impl_->is_added[id]; }

std::optional<int32_t> Tokenizer::IdOfSpecial(std::string_view content) const {
  const auto at = impl_->added_ids.find(std::string(content));
  if (at == impl_->added_ids.end()) return std::nullopt;
  return at->second;
}

}  // namespace thalweg::text
