// The "pre_tokenizer" of a tokenizer.json: cuts text into the pieces that BPE works on.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/json_fields.h"
#include "text/split_regex.h"

namespace thalweg::text {

// Takes the pieces in order. They are never empty.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void Take(std::string_view piece) = 0;
};

class PreTokenizer {
 public:
  // Split and ByteLevel, or a Sequence of them with ByteLevel at its end; null cuts nothing.
  static Result<PreTokenizer> Parse(const JsonField& field);

  // `text` must be well-formed UTF-8.
  void Split(std::string_view text, PieceSink& sink) const { RunFrom(0, text, sink); }

  // Whether BPE then works on bytes (in the printable alphabet) instead of characters.
  bool byte_level() const { return byte_level_; }

 private:
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

  struct Step {
    SplitRegex regex;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
  };

  struct Segment {
    std::string_view text;
    bool matched = false;
  };

  Status Add(const JsonField& field);
  Status AddSplit(const JsonField& field);
  Status AddByteLevel(const JsonField& field);
  static Result<SplitRegex> ReadPattern(const JsonField& split);
  static Result<Behavior> ReadBehavior(const JsonField& split);
  static std::vector<Segment> Segments(const Step& step, std::string_view text);
  static std::vector<std::string_view> Join(const Step& step, std::vector<Segment> segments);

  void RunFrom(size_t step, std::string_view text, PieceSink& sink) const;
  void Isolate(size_t step, std::string_view text, PieceSink& sink) const;

  std::vector<Step> steps_;
  size_t prefix_step_ = kNoPrefix;  // before this step, a space is put before pieces that lack one
  bool byte_level_ = false;

  static constexpr size_t kNoPrefix = static_cast<size_t>(-1);
};

}  // namespace thalweg::text
