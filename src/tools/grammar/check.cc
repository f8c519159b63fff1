#include "tools/grammar/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/constraints.h"
#include "grammar/matcher.h"
#include "tools/grammar/feed.h"

namespace thalweg::tools {
namespace {

constexpr size_t kShownTokens = 8;

Result<grammar::Matcher> MatcherOf(const GrammarVocabulary& v, const std::string& so_args) {
  TW_ASSIGN(const engine::SoArgs args, engine::ParseSoArgs(so_args, "flexible", *v.tokenizer));
  const grammar::Limits limits;
  TW_ASSIGN(grammar::Rules rules,
            grammar::CompileConstraint(args.constraint, v.tokenizer.get(), limits));
  TW_ASSIGN(std::shared_ptr<grammar::Grammar> made,
            grammar::Grammar::Create(std::move(rules), v.vocabulary, limits));
  return grammar::Matcher(std::move(made));
}

int64_t BytesOf(const GrammarVocabulary& v, std::span<const int32_t> tokens) {
  int64_t bytes = 0;
  for (const int32_t t : tokens) bytes += static_cast<int64_t>(v.tokenizer->TokenBytes(t).size());
  return bytes;
}

// Tokens of one byte, by the byte; -1: the vocabulary has none.
std::array<int32_t, 256> ByteTokens(const grammar::Vocabulary& vocabulary) {
  std::array<int32_t, 256> tokens;
  tokens.fill(-1);
  for (int32_t t = vocabulary.size() - 1; t >= 0; --t) {
    const std::string_view bytes = vocabulary.bytes_of(t);
    if (bytes.size() == 1) tokens[static_cast<uint8_t>(bytes[0])] = t;
  }
  return tokens;
}

// Goes on byte by byte into the token that was refused.
Status FeedBytes(const GrammarVocabulary& v, std::string_view text, grammar::Matcher* matcher,
                 int64_t* at) {
  const std::array<int32_t, 256> bytes = ByteTokens(*v.vocabulary);
  while (*at < static_cast<int64_t>(text.size())) {
    const int32_t token = bytes[static_cast<uint8_t>(text[static_cast<size_t>(*at)])];
    if (token < 0) return {};
    TW_ASSIGN(const bool accepted, matcher->Accept(token));
    if (!accepted) return {};
    ++*at;
  }
  return {};
}

Status DescribeNext(const GrammarVocabulary& v, grammar::Matcher* matcher,
                    GrammarVerdict* verdict) {
  verdict->may_end = matcher->can_end();
  TW_ASSIGN(const std::shared_ptr<const grammar::Mask> mask, matcher->NextMask());
  std::vector<std::string> all;
  for (int32_t t = 0; t < v.vocabulary->size(); ++t) {
    if (!MaskHas(*mask, t)) continue;
    ++verdict->next_tokens;
    const std::string_view bytes = v.vocabulary->bytes_of(t);
    if (bytes.size() == 1) verdict->next += bytes;
    all.push_back(bytes.empty() ? v.tokenizer->RawToken(t) : std::string(bytes));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  all.resize(std::min(all.size(), kShownTokens));
  verdict->some = std::move(all);
  std::sort(verdict->next.begin(), verdict->next.end(),
            [](char a, char b) { return static_cast<uint8_t>(a) < static_cast<uint8_t>(b); });
  return {};
}

// Bytes for people: printable ones as they are, others as \xNN.
std::string Shown(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

// "a-z, 0-9": runs of bytes.
std::string Ranges(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    size_t end = i + 1;
    while (end < bytes.size() &&
           static_cast<uint8_t>(bytes[end]) == static_cast<uint8_t>(bytes[end - 1]) + 1)
      ++end;
    if (!out.empty()) out += ' ';
    out += Shown(bytes.substr(i, 1));
    if (end - i > 2) out += '-';
    if (end - i > 1) out += Shown(bytes.substr(end - 1, 1));
    i = end;
  }
  return out;
}

std::string DescribeAllowed(const GrammarVerdict& v) {
  std::string out = fmt::format("  allowed there: {} tokens", v.next_tokens);
  if (!v.next.empty()) out += fmt::format("; bytes {}", Ranges(v.next));
  if (v.may_end) out += "; the end";
  out += "\n";
  for (const std::string& token : v.some) out += fmt::format("    \"{}\"\n", Shown(token));
  return out;
}

}  // namespace

Result<GrammarVerdict> CheckText(const GrammarVocabulary& v, const std::string& so_args,
                                 std::string_view text) {
  TW_ASSIGN(grammar::Matcher matcher, MatcherOf(v, so_args));
  const std::vector<int32_t> tokens = v.tokenizer->Encode(text, text::Specials::kRecognise);
  GrammarVerdict verdict;
  verdict.bytes = static_cast<int64_t>(text.size());
  TW_ASSIGN(verdict.tokens, Feed(tokens, &matcher));
  const auto accepted = static_cast<size_t>(verdict.tokens);
  verdict.at = BytesOf(v, std::span(tokens).first(accepted));
  if (accepted < tokens.size()) {
    verdict.kind = GrammarVerdict::Kind::kRejected;
    TW_TRY(FeedBytes(v, text, &matcher, &verdict.at));
  } else if (!matcher.can_end()) {
    verdict.kind = GrammarVerdict::Kind::kIncomplete;
  }
  TW_TRY(DescribeNext(v, &matcher, &verdict));
  return verdict;
}

base::Json ToJson(const GrammarVerdict& v) {
  constexpr std::array<const char*, 3> kNames = {"accepted", "rejected", "incomplete"};
  base::Json json;
  json["verdict"] = kNames[static_cast<size_t>(v.kind)];
  json["bytes"] = v.bytes;
  json["tokens"] = v.tokens;
  json["at_byte"] = v.at;
  json["may_end"] = v.may_end;
  json["allowed_tokens"] = v.next_tokens;
  json["allowed_bytes"] = base::Json::array();
  for (const char c : v.next) json["allowed_bytes"].push_back(static_cast<uint8_t>(c));
  json["some"] = base::Json::array();
  for (const std::string& token : v.some) json["some"].push_back(Shown(token));
  return json;
}

std::string Describe(const GrammarVerdict& v, std::string_view text) {
  using Kind = GrammarVerdict::Kind;
  if (v.kind == Kind::kAccepted)
    return fmt::format("accepted: {} bytes, {} tokens\n", v.bytes, v.tokens);
  if (v.kind == Kind::kIncomplete)
    return fmt::format("incomplete after {} bytes, {} tokens\n", v.bytes, v.tokens) +
           DescribeAllowed(v);
  const auto at = static_cast<size_t>(v.at);
  const size_t from = at > 40 ? at - 40 : 0;
  return fmt::format("rejected at byte {}: \"{}\" behind \"{}\"\n", v.at,
                     Shown(text.substr(at, 20)), Shown(text.substr(from, at - from))) +
         DescribeAllowed(v);
}

}  // namespace thalweg::tools
