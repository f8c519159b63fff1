#include "comm/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/sha256.h"

namespace thalweg::comm {
namespace {

constexpr size_t kMostNamed = 8;  // differing fields in a message
constexpr size_t kMostValueBytes = 200;
constexpr std::string_view kAbsent = "nothing";

// "rank 2", "ranks 0 to 3 and 5".
std::string RankList(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    for (end = begin + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    runs.push_back(end - begin > 1 ? fmt::format("{} to {}", ranks[begin], ranks[end - 1])
                                   : fmt::format("{}", ranks[begin]));
  }
  std::string text = runs.front();
  for (size_t i = 1; i < runs.size(); ++i)
    text += (i + 1 == runs.size() ? " and " : ", ") + runs[i];
  return (ranks.size() > 1 ? "ranks " : "rank ") + text;
}

std::string ValueOf(const AgreedFields& fields, const std::string& name) {
  const auto at = std::find_if(fields.begin(), fields.end(),
                               [&](const auto& field) { return field.first == name; });
  if (at == fields.end()) return std::string(kAbsent);
  if (at->second.size() <= kMostValueBytes) return at->second;
  // The digest tells long values apart.
  return at->second.substr(0, kMostValueBytes) + "... (" +
         base::HexOf(base::Sha256Of(at->second)).substr(0, 12) + ")";
}

// "option --x is 1 on ranks 0 to 2 and 2 on rank 3", or "" when all ranks have one value.
std::string DescribeField(const std::vector<AgreedFields>& by_rank, const std::string& name) {
  std::map<std::string, std::vector<int>> ranks_of;
  for (size_t r = 0; r < by_rank.size(); ++r)
    ranks_of[ValueOf(by_rank[r], name)].push_back(static_cast<int>(r));
  if (ranks_of.size() < 2) return {};
  std::string text = name + " is ";
  size_t i = 0;
  for (const auto& [value, ranks] : ranks_of)
    text += fmt::format("{}{} on {}",
                        i++ == 0               ? ""
                        : i == ranks_of.size() ? " and "
                                               : ", ",
                        value, RankList(ranks));
  return text;
}

std::vector<std::string> NamesOf(const std::vector<AgreedFields>& by_rank) {
  std::vector<std::string> names;
  for (const AgreedFields& fields : by_rank)
    for (const auto& field : fields)
      if (std::find(names.begin(), names.end(), field.first) == names.end())
        names.push_back(field.first);
  return names;
}

std::span<const std::byte> BytesOfText(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The texts of all ranks.
Result<std::vector<std::string>> GatherTexts(Communicator* communicator, const std::string& mine) {
  const auto size = static_cast<size_t>(communicator->size());
  const auto length = static_cast<int64_t>(mine.size());
  std::vector<int64_t> lengths(size);
  TW_TRY(communicator->AllGather(std::as_bytes(std::span(&length, 1)),
                                 std::as_writable_bytes(std::span(lengths))));
  uint64_t total = 0;
  for (size_t r = 0; r < size; ++r) {
    if (lengths[r] < 0 || static_cast<uint64_t>(lengths[r]) > kMostAgreedBytes)
      return base::OutOfRange(fmt::format("rank {} sends {} bytes of options, {} is the most", r,
                                          lengths[r], kMostAgreedBytes));
    total += static_cast<uint64_t>(lengths[r]);
  }
  std::string all(total, '\0');
  TW_TRY(communicator->AllGather(BytesOfText(mine), lengths,
                                 std::as_writable_bytes(std::span(all.data(), all.size()))));
  std::vector<std::string> texts;
  size_t begin = 0;
  for (const int64_t n : lengths) {
    texts.push_back(all.substr(begin, static_cast<size_t>(n)));
    begin += static_cast<size_t>(n);
  }
  return texts;
}

Result<bool> DigestsAgree(Communicator* communicator, const std::string& encoded) {
  const base::Sha256Digest mine = base::Sha256Of(encoded);
  std::vector<base::Sha256Digest> all(static_cast<size_t>(communicator->size()));
  TW_TRY(communicator->AllGather(std::as_bytes(std::span(mine)),
                                 std::as_writable_bytes(std::span(all))));
  // Everybody sees the same digests, so everybody decides alike.
  return std::all_of(all.begin(), all.end(), [&](const auto& digest) { return digest == mine; });
}

}  // namespace

std::string EncodeFields(const AgreedFields& fields) {
  base::Json json = base::Json::array();
  for (const auto& [name, value] : fields) json.push_back({name, value});
  return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

Result<AgreedFields> DecodeFields(std::string_view bytes, std::string_view what) {
  TW_ASSIGN(const base::Json json, base::ParseJson(bytes, what));
  const auto bad = [&] {
    return base::InvalidArgument(std::string(what) + ": must be a list of [name, value] texts");
  };
  if (!json.is_array()) return bad();
  AgreedFields fields;
  for (const base::Json& entry : json) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string())
      return bad();
    fields.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
  }
  return fields;
}

std::string DescribeDifferences(const std::vector<AgreedFields>& by_rank) {
  std::vector<std::string> differences;
  for (const std::string& name : NamesOf(by_rank))
    if (std::string text = DescribeField(by_rank, name); !text.empty())
      differences.push_back(std::move(text));
  const size_t count = differences.size();
  differences.resize(std::min(count, kMostNamed));
  std::string text = fmt::format("{}", fmt::join(differences, "; "));
  if (count > kMostNamed) text += fmt::format("; and {} more", count - kMostNamed);
  return text;
}

Status Agree(Communicator* communicator, const AgreedFields& fields) {
  const std::string mine = EncodeFields(fields);
  TW_ASSIGN(const bool agree, DigestsAgree(communicator, mine));
  if (agree) return {};
  TW_ASSIGN(const auto texts, GatherTexts(communicator, mine));
  std::vector<AgreedFields> by_rank;
  for (size_t r = 0; r < texts.size(); ++r) {
    TW_ASSIGN(AgreedFields of_rank, DecodeFields(texts[r], fmt::format("options of rank {}", r)));
    by_rank.push_back(std::move(of_rank));
  }
  const std::string differences = DescribeDifferences(by_rank);
  return base::FailedPrecondition(
      "the ranks differ: " + (differences.empty() ? "in the order of options" : differences) +
      ". Start all of them with the same program, options and files");
}

}  // namespace thalweg::comm
