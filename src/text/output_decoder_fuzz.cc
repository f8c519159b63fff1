// Any bytes under any options, cut anywhere: the stream means what the whole does, every text is
// well-formed, complete arguments are JSON, and with tools no markup is content. The first bytes
// choose the options and the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "base/rng.h"
#include "text/dsml.h"
#include "text/output_decoder.h"
#include "text/utf8.h"

namespace {

using namespace thalweg::text;

OutputDecoderOptions OptionsOf(uint8_t flags, uint8_t start) {
  OutputDecoderOptions options;
  options.start = static_cast<OutputDecoderOptions::Start>(start % 5);
  options.tools = (flags & 1) != 0;
  options.calls_in_reasoning = (flags & 2) != 0;
  options.json_content = (flags & 4) != 0;
  options.spelled_think = (flags & 8) != 0;
  if ((flags & 16) != 0) options.stop = {"STOP", "\n\n", "｜D"};
  options.include_stop = (flags & 32) != 0;
  return options;
}

DecodedOutput Stream(const OutputDecoderOptions& options, std::string_view bytes, uint32_t seed) {
  OutputDecoder decoder = OutputDecoder::Create(options).value();
  DecodedOutput output;
  for (size_t pos = 0; pos < bytes.size();) {
    const auto draw = thalweg::base::Philox4x32({static_cast<uint32_t>(pos), 0, 0, 0}, {seed, 0});
    const size_t length = 1 + draw[0] % 7;
    Append(decoder.Push(bytes.substr(pos, length)), &output);
    pos += length;
  }
  Append(decoder.Finish(OutputReason::kStop), &output);
  return output;
}

void Check(const OutputDecoderOptions& options, const DecodedOutput& output) {
  TW_CHECK(IsValidUtf8(output.reasoning));
  TW_CHECK(IsValidUtf8(output.content));
  const bool tools = options.tools || options.start == OutputDecoderOptions::Start::kCalls;
  // What is read over may leave pieces that only together look like markup.
  const OutputFaults& faults = output.end.faults;
  const bool joined = faults.stray_think + faults.stray_tags + faults.empty_blocks > 0;
  const bool may_have_markup = !tools || options.json_content || !options.stop.empty() || joined;
  TW_CHECK(may_have_markup || output.content.find(kDsmlMark) == std::string::npos);
  for (const DecodedCall& call : output.calls) {
    TW_CHECK(IsValidUtf8(call.name));
    TW_CHECK(!call.complete || thalweg::base::Json::accept(call.arguments));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const OutputDecoderOptions options = OptionsOf(data[0], data[1]);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 3, size - 3);
  const DecodedOutput whole = DecodeOutput(options, bytes, OutputReason::kStop).value();
  TW_CHECK(Stream(options, bytes, data[2]) == whole);
  Check(options, whole);
  return 0;
}
