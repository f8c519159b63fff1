#include "text/prompt_writer.h"

#include <utility>

namespace thalweg::text {

void PromptWriter::Own(std::string_view text) {
  const std::pair<std::string_view, int32_t> tokens[] = {
      {kThinkMark, marks_.think}, {kEndThinkMark, marks_.end_think}, {kDsmlMark, marks_.dsml}};
  while (!text.empty()) {
    size_t first = text.size(), length = 0;
    int32_t id = -1;
    for (const auto& [spelling, token] : tokens) {
      const size_t at = text.find(spelling);
      if (at >= first) continue;
      first = at;
      length = spelling.size();
      id = token;
    }
    Text(text.substr(0, first));
    if (length > 0) Mark(id);
    text.remove_prefix(first + length);
  }
}

void PromptWriter::Content(const ChatContent& content) {
  bool first = true;
  for (const ContentBlock& block : content.blocks) {
    if (!std::exchange(first, false)) Text("\n\n");
    if (block.kind == ContentBlock::Kind::kText) {
      Text(block.text);
    } else {
      Mark(marks_.image);
      images_.push_back(block.text);
    }
  }
}

}  // namespace thalweg::text
