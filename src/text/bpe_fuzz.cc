// Encoding by search, by heap and by the definition agree on merges and text that the input
// chooses, and the ids decode to the text with ill-formed UTF-8 repaired.
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "base/check.h"
#include "base/json.h"
#include "text/bpe_model.h"
#include "text/byte_alphabet.h"
#include "text/naive_bpe.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

constexpr size_t kMaxMerges = 64;
constexpr size_t kMaxText = 400;  // the definition is quadratic

// A byte-level model whose merges are pairs of tokens named by two input bytes each: a token of the
// text's own letters, or the result of an earlier merge.
BpeFile ReadModel(std::string_view& input) {
  BpeFile file;
  for (int byte = 0; byte < 256; ++byte) {
    file.tokens.push_back(ToAlphabet(std::string(1, static_cast<char>(byte))));
    file.ids[file.tokens.back()] = byte;
  }
  const size_t count = input.empty() ? 0 : static_cast<uint8_t>(input[0]) % kMaxMerges;
  input.remove_prefix(input.empty() ? 0 : 1);
  const auto token = [&](char choice) {
    const auto n = static_cast<uint8_t>(choice);
    const size_t made = file.tokens.size() - 256;
    return static_cast<int32_t>(n % 2 == 0 || made == 0 ? n : 256 + n / 2 % made);
  };
  for (size_t i = 0; i < count && input.size() >= 2; ++i) {
    Merge merge{.left = token(input[0]), .right = token(input[1])};
    input.remove_prefix(2);
    const std::string joined = file.tokens[merge.left] + file.tokens[merge.right];
    if (joined.size() > 64) continue;
    const auto [at, is_new] =
        file.ids.try_emplace(joined, static_cast<int32_t>(file.tokens.size()));
    if (is_new) file.tokens.push_back(joined);
    merge.result = at->second;
    file.merges.push_back(merge);
  }
  // Merges out of bottom-up order, on request.
  if (!input.empty() && input[0] % 4 == 3 && file.merges.size() > 1) {
    std::swap(file.merges.front(), file.merges.back());
  }
  return file;
}

void CompareWithDefinition(const BpeFile& file, std::string_view text) {
  const BpeModel model = BpeModel::Build(file, {}, /*byte_level=*/true).value();
  std::vector<int32_t> expected;
  for (const char byte : text) expected.push_back(static_cast<uint8_t>(byte));
  NaiveBpe(MergeTable(file.merges), expected);
  std::vector<int32_t> encoded;
  model.Encode(text, encoded);
  TW_CHECK(encoded == expected);
  std::vector<int32_t> merged;
  model.EncodeByMerging(text, merged);
  TW_CHECK(merged == expected);
}

base::Json JsonOf(const BpeFile& file) {
  base::Json vocab = base::Json::object();
  for (size_t id = 0; id < file.tokens.size(); ++id) vocab[file.tokens[id]] = id;
  base::Json merges = base::Json::array();
  for (const Merge& merge : file.merges) {
    merges.push_back({file.tokens[merge.left], file.tokens[merge.right]});
  }
  return {
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"vocab", vocab}, {"merges", merges}}}};
}

void CheckRoundTrip(const BpeFile& file, std::string_view text) {
  const Tokenizer tokenizer = Tokenizer::Parse(JsonOf(file).dump()).value();
  const std::vector<int32_t> ids = tokenizer.Encode(text, Specials::kAsText);
  TW_CHECK(tokenizer.Decode(ids, false) == RepairUtf8(text));
}

}  // namespace
}  // namespace thalweg::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const thalweg::text::BpeFile file = thalweg::text::ReadModel(input);
  const std::string_view text = input.substr(0, thalweg::text::kMaxText);
  thalweg::text::CompareWithDefinition(file, text);
  if (size % 8 == 0) thalweg::text::CheckRoundTrip(file, text);  // slower: it parses a file
  return 0;
}
