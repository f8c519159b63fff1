// Any bytes as a line of the input or of the results: an error or a value, never a crash; and what
// is written for a line is read back as that line's result.
#include <cstddef>
#include <cstdint>

#include "tools/batch/result_line.h"

namespace {

using namespace thalweg;  // NOLINT(google-build-using-namespace)

void TryInput(std::string_view text) {
  tools::batch::LineKey key{.number = 7, .hash = 9};
  const Result<base::Json> line = tools::batch::ParseLine(text, &key.id);
  if (line.ok()) {
    (void)tools::batch::RequestOfLine(*line, base::Json::object()).ok();
  }
  const std::string result = tools::batch::ErrorLine(key, "run", {.message = std::string(text)});
  const auto back = tools::batch::ParseResultLine(result);
  TW_CHECK(back.ok());
  TW_CHECK_EQ(back->number, 7);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TryInput(text);
  (void)tools::batch::ParseResultLine(text).ok();
  return 0;
}
