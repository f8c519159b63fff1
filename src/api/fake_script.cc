#include "api/fake_script.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "api/json_values.h"

namespace thalweg::api {
namespace {

constexpr int64_t kMaxTimes = 100'000'000;
constexpr double kMaxDelayMs = 3.6e6;
constexpr int64_t kMaxContext = int64_t{1} << 30;

Status UnknownField(std::string_view what, std::string_view name) {
  return base::InvalidArgument(fmt::format("{} has an unknown field \"{}\"", what, name));
}

Result<std::chrono::microseconds> ReadDelay(const Json& json, std::string_view what) {
  TW_ASSIGN(const double ms, ReadReal(json, what));
  if (ms < 0 || ms > kMaxDelayMs)
    return base::InvalidArgument(fmt::format("{} is {}: give 0 to {}", what, ms, kMaxDelayMs));
  return std::chrono::microseconds(static_cast<int64_t>(ms * 1000));
}

Result<FakePiece> ReadPiece(const Json& json, std::chrono::microseconds delay) {
  FakePiece piece{.delay = delay};
  if (!json.is_object()) {
    TW_ASSIGN(piece.text, ReadString(json, "a piece"));
    return piece;
  }
  for (const auto& [name, value] : json.items()) {
    if (name == "text") {
      TW_ASSIGN(piece.text, ReadString(value, name));
    } else if (name == "delay_ms") {
      TW_ASSIGN(piece.delay, ReadDelay(value, name));
    } else {
      return UnknownField("a piece", name);
    }
  }
  return piece;
}

// {"code": "unsupported", "message": "..."}
Status ReadError(const Json& json, std::string_view what, std::optional<Status>* out) {
  constexpr std::array kCodes = {base::Code::kInvalidArgument,
                                 base::Code::kNotFound,
                                 base::Code::kFailedPrecondition,
                                 base::Code::kOutOfRange,
                                 base::Code::kUnsupported,
                                 base::Code::kResourceExhausted,
                                 base::Code::kIo,
                                 base::Code::kInternal};
  if (!json.is_object()) return WrongValue(json, what, "an object with code and message");
  TW_ASSIGN(const std::string name, ReadString(json.value("code", Json("internal error")), what));
  TW_ASSIGN(std::string message, ReadString(json.value("message", Json("it failed")), what));
  for (const base::Code code : kCodes) {
    if (base::CodeName(code) != name) continue;
    *out = Status(code, std::move(message));
    return {};
  }
  return base::InvalidArgument(fmt::format("{}: no error is called \"{}\"", what, name));
}

Result<bool> OneOf(const Json& json, std::string_view what, std::string_view no,
                   std::string_view yes) {
  TW_ASSIGN(const std::string text, ReadString(json, what));
  if (text == yes || text == no) return text == yes;
  return WrongValue(json, what, fmt::format("\"{}\" or \"{}\"", no, yes));
}

Status SetAnswerField(const std::string& name, const Json& value, FakeAnswer* answer) {
  if (name == "match") {
    TW_ASSIGN(answer->match, ReadString(value, name));
  } else if (name == "times") {
    TW_ASSIGN(answer->times, ReadInteger(value, name, 0, kMaxTimes));
  } else if (name == "by") {
    TW_ASSIGN(answer->whole_pieces, OneOf(value, name, "token", "piece"));
  } else if (name == "finish") {
    TW_ASSIGN(answer->length, OneOf(value, name, "stop", "length"));
  } else if (name == "stamped") {
    TW_ASSIGN(answer->stamped, ReadBool(value, name));
  } else if (name == "cached_tokens") {
    TW_ASSIGN(answer->cached_tokens, ReadInteger(value, name, 0, kMaxContext));
  } else if (name == "refuse") {
    return ReadError(value, name, &answer->refusal);
  } else if (name == "fail") {
    return ReadError(value, name, &answer->failure);
  } else if (name != "pieces" && name != "delay_ms") {
    return UnknownField("an answer", name);
  }
  return {};
}

Result<FakeAnswer> ReadAnswer(const Json& json) {
  if (!json.is_object()) return WrongValue(json, "an answer", "an object");
  FakeAnswer answer;
  for (const auto& [name, value] : json.items()) TW_TRY(SetAnswerField(name, value, &answer));
  std::chrono::microseconds delay{0};
  if (json.contains("delay_ms")) {
    TW_ASSIGN(delay, ReadDelay(json["delay_ms"], "delay_ms"));
  }
  if (!json.contains("pieces")) return answer;
  if (!json["pieces"].is_array()) return WrongValue(json["pieces"], "pieces", "an array");
  for (const Json& one : json["pieces"]) {
    TW_ASSIGN(FakePiece piece, ReadPiece(one, delay));
    answer.pieces.push_back(std::move(piece));
  }
  return answer;
}

Result<std::vector<FakeAnswer>> ReadAnswers(const Json& json) {
  if (!json.is_array()) return WrongValue(json, "answers", "an array");
  std::vector<FakeAnswer> answers;
  for (const Json& one : json) {
    auto answer = ReadAnswer(one);
    if (!answer.ok())
      return answer.status().WithContext(fmt::format("answers[{}]", answers.size()));
    answers.push_back(std::move(*answer));
  }
  return answers;
}

}  // namespace

Result<FakeScript> ParseFakeScript(std::string_view text) {
  TW_ASSIGN(const Json json, base::ParseJson(text, "script"));
  if (!json.is_object()) return WrongValue(json, "script", "an object");
  FakeScript script;
  for (const auto& [name, value] : json.items()) {
    if (name == "name") {
      TW_ASSIGN(script.name, ReadString(value, name));
    } else if (name == "context_tokens") {
      TW_ASSIGN(script.context_tokens, ReadInteger(value, name, 1, kMaxContext));
    } else if (name == "step_ms") {
      TW_ASSIGN(script.step, ReadDelay(value, name));
    } else if (name == "tokenizer") {
      TW_ASSIGN(script.tokenizer, ReadString(value, name));
    } else if (name == "answers") {
      TW_ASSIGN(script.answers, ReadAnswers(value));
    } else {
      return UnknownField("script", name);
    }
  }
  return script;
}

}  // namespace thalweg::api
