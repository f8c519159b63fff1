// Answers as a stranger's server may send them, cut anywhere: what is read does not depend on the
// cuts, and nothing crashes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tools/bench/serve_client.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace thalweg::tools::bench {
namespace {

// What a reader made of an answer.
struct Made {
  bool complete = false;
  int64_t events = 0;
  int64_t tokens = 0;
  std::string error = {};
  bool operator==(const Made&) const = default;
};

// Read in pieces of so many bytes.
Made Read(std::string_view answer, size_t piece) {
  AnswerReader reader;
  Made made;
  for (; !answer.empty() && !made.complete; answer.remove_prefix(std::min(piece, answer.size()))) {
    made.complete = reader.Push(answer.substr(0, piece));
    made.events += reader.new_events();
  }
  made.tokens = reader.tokens();
  made.error = reader.error();
  return made;
}

}  // namespace
}  // namespace thalweg::tools::bench

// The first byte is the size of the pieces.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::tools::bench;
  if (size == 0) return 0;
  const std::string_view answer(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t piece = size_t{1} + data[0];
  if (!(Read(answer, piece) == Read(answer, answer.size() + 1))) std::abort();
  return 0;
}
