#include "text/test_decoder_corpus.h"

#include <fmt/format.h>

#include <fstream>

#include "base/check.h"

namespace thalweg::text {
namespace {

using base::Json;
using Start = OutputDecoderOptions::Start;

template <typename Value>
Value OneOf(const std::string& name, const std::vector<std::pair<std::string, Value>>& values) {
  for (const auto& [known, value] : values) {
    if (known == name) return value;
  }
  base::CheckFailed(__FILE__, __LINE__, "a known name", name);
}

OutputReason ReasonOf(const std::string& name) {
  return OneOf<OutputReason>(name, {{"stop", OutputReason::kStop},
                                    {"length", OutputReason::kLength},
                                    {"tool_calls", OutputReason::kToolCalls},
                                    {"cancelled", OutputReason::kCancelled},
                                    {"error", OutputReason::kError}});
}

OutputDecoderOptions ReadOptions(const Json& json) {
  OutputDecoderOptions options;
  options.start = OneOf<Start>(json.value("start", "content"),
                               {{"content", Start::kContent},
                                {"reasoning", Start::kReasoning},
                                {"continued_content", Start::kContinuedContent},
                                {"continued_reasoning", Start::kContinuedReasoning},
                                {"calls", Start::kCalls}});
  options.tools = json.value("tools", false);
  options.calls_in_reasoning = json.value("calls_in_reasoning", true);
  options.json_content = json.value("json_content", false);
  options.spelled_think = json.value("spelled_think", true);
  options.stop = json.value("stop", std::vector<std::string>());
  options.include_stop = json.value("include_stop", false);
  options.call_id_prefix = json.value("call_id_prefix", "call_");
  return options;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::variant<std::string, ThinkMark> ReadPiece(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.contains("hex")) return FromHex(json["hex"].get<std::string>());
  return json["mark"] == "think" ? ThinkMark::kBegin : ThinkMark::kEnd;
}

OutputFaults ReadFaults(const Json& json) {
  const Json faults = json.value("faults", Json::object());
  const auto count = [&](const char* name) { return faults.value(name, int64_t{0}); };
  return {.stray_think = count("stray_think"),
          .stray_tags = count("stray_tags"),
          .ignored_bytes = count("ignored_bytes"),
          .mended_values = count("mended_values"),
          .incomplete_calls = count("incomplete_calls"),
          .empty_blocks = count("empty_blocks")};
}

DecodedOutput ReadExpected(const Json& json, const std::string& id_prefix) {
  DecodedOutput output;
  output.reasoning = json.value("reasoning", "");
  output.content = json.value("content", "");
  for (const Json& call : json.value("calls", Json::array())) {
    output.calls.push_back({.id = id_prefix + std::to_string(output.calls.size()),
                            .name = call[0].get<std::string>(),
                            .arguments = call[1].get<std::string>(),
                            .complete = call[2].get<bool>()});
  }
  output.end.reason = ReasonOf(json["reason"].get<std::string>());
  output.end.stop_string = json.value("stop_string", "");
  output.end.faults = ReadFaults(json);
  return output;
}

DecoderCase ReadCase(const Json& json) {
  DecoderCase one;
  one.name = json["name"].get<std::string>();
  one.options = ReadOptions(json["options"]);
  const Json pieces = json["input"].is_array() ? json["input"] : Json::array({json["input"]});
  for (const Json& piece : pieces) one.input.push_back(ReadPiece(piece));
  one.reason = ReasonOf(json["reason"].get<std::string>());
  one.expect = ReadExpected(json["expect"], one.options.call_id_prefix);
  return one;
}

}  // namespace

std::vector<DecoderCase> ReadDecoderCases(const std::string& file) {
  std::ifstream lines(std::string(THALWEG_SOURCE_DIR "/tests/data/decoder/") + file);
  std::vector<DecoderCase> cases;
  for (std::string line; std::getline(lines, line);) cases.push_back(ReadCase(Json::parse(line)));
  return cases;
}

void PrintTo(const DecodedOutput& output, std::ostream* stream) {
  Json calls = Json::array();
  for (const DecodedCall& call : output.calls) {
    calls.push_back({call.id, call.name, call.arguments, call.complete});
  }
  const OutputFaults& f = output.end.faults;
  *stream << Json{{"reasoning", output.reasoning},
                  {"content", output.content},
                  {"calls", calls},
                  {"reason", static_cast<int>(output.end.reason)},
                  {"stop", output.end.stop_string},
                  {"stray_think", f.stray_think},
                  {"stray_tags", f.stray_tags},
                  {"ignored_bytes", f.ignored_bytes},
                  {"mended_values", f.mended_values},
                  {"incomplete_calls", f.incomplete_calls},
                  {"empty_blocks", f.empty_blocks}}
                 .dump(1);
}

}  // namespace thalweg::text
