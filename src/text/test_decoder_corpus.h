// Streams of tests/data/decoder, for the tests of the decoder of model output.
#pragma once

#include <ostream>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/output_decoder.h"

namespace thalweg::text {

struct DecoderCase {
  std::string name;
  OutputDecoderOptions options;
  // Bytes and marks, one after the other.
  std::vector<std::variant<std::string, ThinkMark>> input;
  OutputReason reason = OutputReason::kStop;
  DecodedOutput expect;
};

std::vector<DecoderCase> ReadDecoderCases(const std::string& file);

// For messages of tests that fail.
void PrintTo(const DecodedOutput& output, std::ostream* stream);

}  // namespace thalweg::text
