#include "text/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "text/regex_program.h"

namespace thalweg::text {
namespace {

// What ByteLevel splits by when use_regex is on (GPT-2).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

Result<PreTokenizer> PreTokenizer::Parse(const JsonField& field) {
  PreTokenizer pre;
  if (!field.is_null()) TW_TRY(pre.Add(field));
  return pre;
}

Status PreTokenizer::Add(const JsonField& field) {
  TW_ASSIGN(const JsonField type_field, field.Member("type"));
  TW_ASSIGN(const std::string type, type_field.AsString());
  if (byte_level_) return field.NotSupported("a step after ByteLevel");
  if (type == "Split") return AddSplit(field);
  if (type == "ByteLevel") return AddByteLevel(field);
  if (type != "Sequence") {
    return type_field.NotSupported(fmt::format("\"{}\"; Split, ByteLevel and Sequence are", type));
  }
  TW_ASSIGN(const JsonField list, field.Member("pretokenizers"));
  TW_TRY(list.RequireArray());
  for (size_t i = 0; i < list.value().size(); ++i) TW_TRY(Add(list.Element(i)));
  return {};
}

Status PreTokenizer::AddSplit(const JsonField& field) {
  TW_ASSIGN(SplitRegex regex, ReadPattern(field));
  TW_ASSIGN(const Behavior behavior, ReadBehavior(field));
  TW_ASSIGN(const bool invert, field.BoolOr("invert", false));
  steps_.push_back({std::move(regex), behavior, invert});
  return {};
}

Status PreTokenizer::AddByteLevel(const JsonField& field) {
  TW_ASSIGN(const bool prefix, field.BoolOr("add_prefix_space", true));
  TW_ASSIGN(const bool use_regex, field.BoolOr("use_regex", true));
  if (prefix) prefix_step_ = steps_.size();
  if (use_regex) {
    TW_ASSIGN(SplitRegex regex, SplitRegex::Compile(kByteLevelPattern));
    steps_.push_back({std::move(regex), Behavior::kIsolated, false});
  }
  byte_level_ = true;
  return {};
}

Result<SplitRegex> PreTokenizer::ReadPattern(const JsonField& split) {
  TW_ASSIGN(const JsonField pattern, split.Member("pattern"));
  TW_ASSIGN(const std::optional<JsonField> literal, pattern.Optional("String"));
  TW_ASSIGN(const JsonField source,
            literal ? Result<JsonField>(*literal) : pattern.Member("Regex"));
  TW_ASSIGN(std::string text, source.AsString());
  if (literal) text = EscapeRegex(text);
  Result<SplitRegex> regex = SplitRegex::Compile(text);
  if (!regex.ok()) return regex.status().WithContext(source.path());
  return regex;
}

Result<PreTokenizer::Behavior> PreTokenizer::ReadBehavior(const JsonField& split) {
  TW_ASSIGN(const JsonField field, split.Member("behavior"));
  TW_ASSIGN(const std::string name, field.AsString());
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return field.NotSupported(fmt::format("\"{}\" is not a known behavior", name));
}

void PreTokenizer::RunFrom(size_t step, std::string_view text, PieceSink& sink) const {
  if (text.empty()) return;
  std::string prefixed;
  if (step == prefix_step_ && text[0] != ' ') {
    prefixed = " " + std::string(text);
    text = prefixed;
  }
  if (step == steps_.size()) return sink.Take(text);
  if (steps_[step].behavior == Behavior::kIsolated) return Isolate(step, text, sink);
  for (const std::string_view piece : Join(steps_[step], Segments(steps_[step], text))) {
    RunFrom(step + 1, piece, sink);
  }
}

// Each match and each text between two is a piece: what all byte-level tokenizers do, and so done
// without a list of segments.
void PreTokenizer::Isolate(size_t step, std::string_view text, PieceSink& sink) const {
  SplitScanner scanner(steps_[step].regex, text);
  size_t start = 0;
  size_t end = 0;
  size_t done = 0;
  while (scanner.Next(start, end)) {
    RunFrom(step + 1, text.substr(done, start - done), sink);
    RunFrom(step + 1, text.substr(start, end - start), sink);
    done = end;
  }
  RunFrom(step + 1, text.substr(done), sink);
}

std::vector<PreTokenizer::Segment> PreTokenizer::Segments(const Step& step, std::string_view text) {
  std::vector<Segment> segments;
  const auto add = [&](size_t from, size_t to, bool matched) {
    if (from < to) segments.push_back({text.substr(from, to - from), matched != step.invert});
  };
  SplitScanner scanner(step.regex, text);
  size_t start = 0;
  size_t end = 0;
  size_t done = 0;
  while (scanner.Next(start, end)) {
    add(done, start, false);
    add(start, end, true);
    done = end;
  }
  add(done, text.size(), false);
  return segments;
}

// Neighbours become one piece where the behavior says so. Merging with the next is merging with the
// previous, seen from the end.
std::vector<std::string_view> PreTokenizer::Join(const Step& step, std::vector<Segment> segments) {
  const bool backwards = step.behavior == Behavior::kMergedWithNext;
  if (backwards) std::reverse(segments.begin(), segments.end());
  std::vector<std::string_view> pieces;
  bool previous = false;
  for (const auto& [text, matched] : segments) {
    const bool joins =
        step.behavior == Behavior::kContiguous ? matched == previous : matched && !previous;
    previous = matched;
    if (step.behavior == Behavior::kRemoved) {
      if (!matched) pieces.push_back(text);
    } else if (joins && !pieces.empty()) {
      const char* const first = std::min(pieces.back().data(), text.data());
      pieces.back() = std::string_view(first, pieces.back().size() + text.size());
    } else {
      pieces.push_back(text);
    }
  }
  if (backwards) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace thalweg::text
