// Whether a closing tag inside the value of a parameter ends it. The value may speak of tags, and
// nothing escapes them: a tag counts when what follows it can follow the end of a value.
#pragma once

#include <string>
#include <string_view>

namespace thalweg::text {

// The tag behind "</｜DSML｜", byte by byte: " parameter>" (or "param...", with or without the
// space) or " invoke>" with another tag behind it, or the end of a block with nothing behind it;
// white space between does not count.
class ValueEnd {
 public:
  enum class Verdict {
    kOpen,  // not known yet
    kText,  // no end: mark and bytes belong to the value
    kEnds,  // the value ends before the mark; bytes() stand behind it
  };

  // `mark`: as it was written, "</｜DSML｜".
  void Begin(std::string_view mark);
  Verdict Advance(char byte);
  // Whether the tag has come to its end.
  bool has_tag() const { return tag_ != Tag::kNone; }

  const std::string& mark() const { return mark_; }
  // Everything behind the mark.
  const std::string& bytes() const { return bytes_; }

 private:
  enum class Tag { kNone, kInner, kBlock };

  Verdict Name(char byte);
  Verdict Behind(char byte);
  Verdict NextTag() const;

  std::string mark_;
  std::string bytes_;
  Tag tag_ = Tag::kNone;  // once ">" has come
  size_t next_ = 0;       // where the tag behind begins in bytes_; 0: not yet
};

}  // namespace thalweg::text
