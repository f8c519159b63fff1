// Any pattern is refused or finds, in any text, matches that are in order, not empty and made of
// whole characters. The input is the pattern, a zero byte, the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/split_regex.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::text;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\0'), input.size());
  const auto regex = SplitRegex::Compile(input.substr(0, cut));
  if (!regex.ok()) return 0;
  const std::string text = RepairUtf8(input.substr(std::min(cut + 1, size)));
  SplitScanner scanner(*regex, text);
  size_t done = 0;
  for (size_t start = 0, end = 0; scanner.Next(start, end); done = end) {
    TW_CHECK_LE(done, start);
    TW_CHECK_LT(start, end);
    TW_CHECK_LE(end, text.size());
    TW_CHECK(IsValidUtf8(std::string_view(text).substr(start, end - start)));
  }
  return 0;
}
