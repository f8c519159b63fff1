#include "tools/eval/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace thalweg::tools::eval {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlank(char c) { return kBlanks.find(c) != std::string_view::npos; }
bool IsPunctuation(char c) {
  return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
         (c > 'z' && c < 0x7f);
}
bool IsArticle(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = std::min(text.find_first_not_of(kBlanks, at), text.size());
    const size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return words;
}

std::string LowerAscii(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string WithoutArticles(std::string_view text) {
  std::string out;
  for (const std::string_view word : Words(text)) {
    if (IsArticle(LowerAscii(std::string(word)))) continue;
    if (!out.empty()) out += ' ';
    out += word;
  }
  return out;
}

std::string Normalised(std::string text, const AnswerRule& rule) {
  if (rule.fold_case) text = LowerAscii(std::move(text));
  if (rule.drop_punctuation) std::erase_if(text, IsPunctuation);
  if (rule.drop_articles) return WithoutArticles(text);
  if (rule.fold_space) return fmt::format("{}", fmt::join(Words(text), " "));
  return text;
}

std::string FirstLine(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  return std::string(text.substr(first, text.find('\n', first) - first));
}

// One spelling for each value: no sign of plus, no leading zeros, none behind the last digit.
std::string PlainNumber(std::string_view whole, std::string_view fraction, bool negative) {
  while (whole.size() > 1 && whole.front() == '0') whole.remove_prefix(1);
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  std::string out(whole.empty() ? "0" : whole);
  if (!fraction.empty()) out += fmt::format(".{}", fraction);
  return negative && out != "0" ? "-" + out : out;
}

// The number that ends just before `end`, whose last character is a digit; thousands may be
// separated by commas.
std::string NumberBefore(std::string_view text, size_t end) {
  size_t begin = end;
  while (begin > 0 && IsDigit(text[begin - 1])) --begin;
  std::string_view fraction;
  if (begin > 1 && text[begin - 1] == '.' && IsDigit(text[begin - 2])) {
    fraction = text.substr(begin, end - begin);
    end = begin - 1;
    begin = end;
  }
  std::string whole;
  for (; end > 0 &&
         (IsDigit(text[end - 1]) || (text[end - 1] == ',' && end > 1 && IsDigit(text[end - 2]) &&
                                     whole.size() % 3 == 0 && !whole.empty()));
       --end) {
    if (text[end - 1] != ',') whole += text[end - 1];
  }
  std::reverse(whole.begin(), whole.end());
  // A minus belongs to the number where no word or number is joined by it.
  const bool minus = end > 0 && text[end - 1] == '-';
  const bool joined = end > 1 && !IsBlank(text[end - 2]) && !IsPunctuation(text[end - 2]);
  return PlainNumber(whole, fraction, minus && !joined);
}

Result<std::string> LastNumber(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && !IsDigit(text[end - 1])) --end;
  if (end == 0) return base::InvalidArgument("no number in it");
  return NumberBefore(text, end);
}

// Members sorted by name, numbers that are whole as integers.
Result<std::string> SortedJson(std::string_view text) {
  TW_ASSIGN(const base::Json json, base::ParseJson(text, "the answer"));
  nlohmann::json sorted = nlohmann::json::parse(json.dump());
  const auto plain = [](auto&& self, nlohmann::json* value) -> void {
    if (value->is_number_float()) {
      const double real = value->get<double>();
      if (real == static_cast<double>(static_cast<int64_t>(std::clamp(real, -9e15, 9e15))))
        *value = static_cast<int64_t>(real);
    }
    if (value->is_structured()) {
      for (nlohmann::json& inner : *value) self(self, &inner);
    }
  };
  plain(plain, &sorted);
  return sorted.dump();
}

template <typename T, size_t N>
Result<T> Named(std::string_view name, const std::array<std::string_view, N>& names) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<T>(at - names.begin());
  return base::InvalidArgument(fmt::format("\"{}\" is none of {}", name, fmt::join(names, ", ")));
}

bool Matches(std::string_view answer, std::string_view expected, Match match) {
  switch (match) {
    case Match::kPrefix: return answer.starts_with(expected);
    case Match::kContains: return answer.find(expected) != std::string_view::npos;
    default: return answer == expected;
  }
}

}  // namespace

Status SetNormalisation(const std::vector<std::string>& names, AnswerRule* rule) {
  rule->fold_space = rule->fold_case = rule->drop_punctuation = rule->drop_articles = false;
  for (const std::string& name : names) {
    bool* flag = name == "space"         ? &rule->fold_space
                 : name == "case"        ? &rule->fold_case
                 : name == "punctuation" ? &rule->drop_punctuation
                 : name == "articles"    ? &rule->drop_articles
                                         : nullptr;
    if (flag == nullptr) {
      return base::InvalidArgument(
          fmt::format("normalise: \"{}\" is none of space, case, punctuation, articles", name));
    }
    *flag = true;
  }
  return {};
}

Result<Extract> ParseExtract(std::string_view name) {
  return Named<Extract, 4>(name, {"text", "line", "number", "json"});
}

Result<Match> ParseMatch(std::string_view name) {
  return Named<Match, 3>(name, {"equal", "prefix", "contains"});
}

Result<std::string> Comparable(std::string_view text, const AnswerRule& rule) {
  switch (rule.extract) {
    case Extract::kNumber: return LastNumber(text);
    case Extract::kJson: return SortedJson(text);
    case Extract::kLine: return Normalised(FirstLine(text), rule);
    default: return Normalised(std::string(text), rule);
  }
}

bool IsRight(std::string_view answer, const std::vector<std::string>& expected,
             const AnswerRule& rule) {
  const Result<std::string> given = Comparable(answer, rule);
  if (!given.ok()) return false;
  return std::any_of(expected.begin(), expected.end(), [&](const std::string& one) {
    const Result<std::string> wanted = Comparable(one, rule);
    return wanted.ok() && Matches(*given, *wanted, rule.match);
  });
}

}  // namespace thalweg::tools::eval
