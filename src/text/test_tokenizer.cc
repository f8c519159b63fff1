#include "text/test_tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"

namespace thalweg::text {

using base::Json;

Json ByteLevelJson(const std::vector<std::pair<std::string, std::string>>& merges,
                   const std::vector<std::string>& added) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[ToAlphabet(std::string(1, static_cast<char>(byte)))] = byte;
  }
  Json merge_list = Json::array();
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    merge_list.push_back({left, right});
  }
  Json added_list = Json::array();
  for (const std::string& content : added) {
    added_list.push_back({{"id", vocab.size() + added_list.size()},
                          {"content", content},
                          {"special", content.starts_with("<｜")},
                          {"normalized", false}});
  }
  return {
      {"added_tokens", added_list},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merge_list}}}};
}

std::vector<std::pair<std::string, std::string>> RandomMerges(uint64_t seed, int count,
                                                              bool shuffled) {
  Dice dice(seed);
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<std::pair<std::string, std::string>> merges;
  const auto pick = [&] { return tokens[dice.Below(static_cast<uint32_t>(tokens.size()))]; };
  while (static_cast<int>(merges.size()) < count) {
    const std::pair<std::string, std::string> merge(pick(), pick());
    if (merge.first.size() + merge.second.size() > 12) continue;
    if (std::find(merges.begin(), merges.end(), merge) != merges.end()) continue;
    merges.push_back(merge);
    tokens.push_back(merge.first + merge.second);
  }
  for (size_t i = merges.size(); shuffled && i > 1; --i) {
    std::swap(merges[i - 1], merges[dice.Below(static_cast<uint32_t>(i))]);
  }
  return merges;
}

}  // namespace thalweg::text
