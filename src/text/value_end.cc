#include "text/value_end.h"

#include "text/dsml.h"

namespace thalweg::text {
namespace {

constexpr size_t kLongestName = 32;

bool IsSpace(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

bool IsNameByte(char byte) { return (byte >= 'a' && byte <= 'z') || byte == '_'; }

}  // namespace

void ValueEnd::Begin(std::string_view mark) {
  mark_ = mark;
  bytes_.clear();
  tag_ = Tag::kNone;
  next_ = 0;
}

ValueEnd::Verdict ValueEnd::Advance(char byte) {
  bytes_.push_back(byte);
  return tag_ == Tag::kNone ? Name(byte) : Behind(byte);
}

ValueEnd::Verdict ValueEnd::Name(char byte) {
  if (byte != '>') {
    const bool space = byte == ' ' && bytes_.size() == 1;
    return (space || IsNameByte(byte)) && bytes_.size() < kLongestName ? Verdict::kOpen
                                                                       : Verdict::kText;
  }
  switch (ClosingTag(std::string_view(bytes_).substr(0, bytes_.size() - 1))) {
    case DsmlTag::kParameter:
    case DsmlTag::kInvoke: tag_ = Tag::kInner; return Verdict::kOpen;
    case DsmlTag::kBlock: tag_ = Tag::kBlock; return Verdict::kOpen;
    case DsmlTag::kUnknown: return Verdict::kText;
  }
  return Verdict::kText;
}

ValueEnd::Verdict ValueEnd::Behind(char byte) {
  if (next_ == 0) {
    if (IsSpace(byte)) return Verdict::kOpen;
    if (tag_ == Tag::kBlock) return Verdict::kText;
    next_ = bytes_.size() - 1;
  }
  return NextTag();
}

ValueEnd::Verdict ValueEnd::NextTag() const {
  const std::string_view next = std::string_view(bytes_).substr(next_);
  for (const std::string_view tag : kDsmlTagBegins) {
    if (next == tag) return Verdict::kEnds;
    if (tag.starts_with(next)) return Verdict::kOpen;
  }
  return Verdict::kText;
}

}  // namespace thalweg::text
