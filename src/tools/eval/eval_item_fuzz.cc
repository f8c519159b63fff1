// Any bytes as an item of a set or as a line of results: an error or a value, never a crash; and a
// score of what is an item is read back as it was.
#include <cstddef>
#include <cstdint>

#include "tools/eval/score.h"

namespace {

using namespace thalweg;  // NOLINT(google-build-using-namespace)

void TryScore(const tools::eval::Item& item, std::string_view answer) {
  tools::eval::Score score{.kind = item.kind, .group = item.group, .tokens = 3, .nll = 0.1};
  if (item.kind != tools::eval::Kind::kPerplexity) {
    const bool right = tools::eval::IsRight(answer, item.answers, item.rule);
    score.marks.emplace_back("exact_match", right);
  }
  const auto back = tools::eval::ParseScoreLine(tools::eval::ScoreLine(item, "run", score));
  TW_CHECK(back.ok());
  TW_CHECK(back->marks == score.marks);
  TW_CHECK(back->group == score.group);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<tools::eval::Item> item = tools::eval::ParseItem(text);
  if (item.ok()) TryScore(*item, text);
  (void)tools::eval::ParseScoreLine(text).ok();
  for (const auto extract : {tools::eval::Extract::kNumber, tools::eval::Extract::kLine})
    (void)tools::eval::Comparable(text, {.extract = extract}).ok();
  return 0;
}
