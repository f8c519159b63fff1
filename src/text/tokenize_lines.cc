// tokenize_lines tokenizer.json: one JSON request a line in, one JSON answer a line out, for tests
// that compare this tokenizer with another implementation.
//
//   {"text": "...", "specials": true}     ids and decoded text, specials recognised or not
//   {"hex": "ff41", "specials": false}    the same for bytes that need not be UTF-8
//   {"pieces": [0, "text", 1]}            numbers are special tokens
//   {"chat": {"messages": [...], "tools": [...], "thinking": true, ...}}  the body of a chat
//   request
//   {"sample": 0, "bytes": 1000, "seed": 1}  generated text of a kind, under "text"
//   {"ranges": true}                      code points assigned in this library's Unicode version
#include <fmt/format.h>
#include <unicode/uniset.h>

#include <charconv>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/char_classes.h"
#include "text/chat_json.h"
#include "text/pieces.h"
#include "text/sample_text.h"
#include "text/tokenizer.h"

namespace thalweg::text {
namespace {

using base::Json;

Result<std::string> FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(&hex[i], &hex[i] + 2, byte, 16);
    if (error != std::errc() || end != &hex[i] + 2) return base::InvalidArgument("bad hex");
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

Json IdsAndText(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return {{"ids", ids}, {"decoded", tokenizer.Decode(ids, false)}};
}

std::vector<Piece> ReadPieces(const Json& list) {
  std::vector<Piece> pieces;
  for (const Json& one : list) {
    pieces.push_back(one.is_string() ? Piece::Text(one.get<std::string>())
                                     : Piece::Special(one.get<int32_t>()));
  }
  return pieces;
}

Result<std::vector<int32_t>> EncodeBody(const Tokenizer& tokenizer, const Json& body) {
  TW_ASSIGN(const ChatRequest request, ReadChatRequest(body));
  const EffortChoice effort = request.effort.value_or(EffortChoice());
  return EncodeChat(tokenizer, request.conversation,
                    {.thinking = effort.thinking, .effort = effort.effort});
}

Result<Json> Ranges() {
  TW_ASSIGN(icu::UnicodeSet set, PropertySet("Cn"));
  set.complement();
  Json ranges = Json::array();
  for (int32_t i = 0; i < set.getRangeCount(); ++i) {
    ranges.push_back({set.getRangeStart(i), set.getRangeEnd(i)});
  }
  return Json{{"ranges", std::move(ranges)}};
}

Result<Json> Answer(const Tokenizer& tokenizer, const Json& request) {
  if (request.contains("ranges")) return Ranges();
  if (request.contains("sample")) {
    return Json{{"text", SampleText(request["sample"].get<size_t>(), request["bytes"].get<size_t>(),
                                    request.value("seed", 1u))}};
  }
  if (request.contains("pieces")) {
    return IdsAndText(tokenizer, EncodePieces(tokenizer, ReadPieces(request["pieces"])));
  }
  if (request.contains("chat")) {
    TW_ASSIGN(const std::vector<int32_t> ids, EncodeBody(tokenizer, request["chat"]));
    return IdsAndText(tokenizer, ids);
  }
  std::string text = request.value("text", "");
  if (request.contains("hex")) {
    TW_ASSIGN(text, FromHex(request["hex"].get<std::string>()));
  }
  const bool specials = request.value("specials", false);
  return IdsAndText(tokenizer,
                    tokenizer.Encode(text, specials ? Specials::kRecognise : Specials::kAsText));
}

Status Run(const char* path) {
  TW_ASSIGN(const Tokenizer tokenizer, Tokenizer::Load(path));
  for (std::string line; std::getline(std::cin, line);) {
    TW_ASSIGN(const Json request, base::ParseJson(line, "the request"));
    TW_ASSIGN(const Json answer, Answer(tokenizer, request));
    std::cout << answer.dump() << '\n';
  }
  return {};
}

}  // namespace
}  // namespace thalweg::text

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: tokenize_lines tokenizer.json < requests > answers\n");
    return 2;
  }
  const thalweg::Status status = thalweg::text::Run(argv[1]);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.ToString());
  return 1;
}
