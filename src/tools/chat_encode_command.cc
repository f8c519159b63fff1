// `thalweg chat-encode`: conversations as prompts, for eyes and for scripts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/mapped_file.h"
#include "hub/hub.h"
#include "tools/chat_encode.h"
#include "tools/command.h"

namespace thalweg::tools {
namespace {

constexpr uint64_t kMostFileBytes = 1ull << 30;

Result<text::Tokenizer> LoadTokenizer(const OptionValues& values) {
  std::filesystem::path path = values.Text("tokenizer");
  if (path.empty()) {
    TW_ASSIGN(const hub::HubOptions options, hub::HubOptions::From(values));
    TW_ASSIGN(path, hub::FindModel(values.Text("model"), options));
  }
  return text::Tokenizer::Load(std::filesystem::is_directory(path) ? path / "tokenizer.json"
                                                                   : path);
}

Result<std::string> ReadInput(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  return base::ReadFile(file, kMostFileBytes);
}

void Print(const EncodedChat& chat, const OptionValues& values) {
  std::string out;
  if (values.Flag("json")) {
    out = ToJson(chat).dump(-1, ' ', false, base::Json::error_handler_t::replace);
  } else {
    if (values.Text("print") != "ids") out = chat.prompt;
    if (values.Text("print") == "both") out += "\n";
    if (values.Text("print") != "prompt") out += fmt::format("{}", fmt::join(chat.ids, " "));
  }
  out += "\n";
  std::fwrite(out.data(), 1, out.size(), stdout);
}

Result<int> Run(const OptionValues& values) {
  TW_ASSIGN(const ChatEncodeOptions options, ChatEncodeOptions::From(values));
  TW_ASSIGN(const text::Tokenizer tokenizer, LoadTokenizer(values));
  const auto& files = values.positionals();
  const std::string file = files.empty() ? "-" : files.front();
  const std::string what = file == "-" ? "standard input" : file;
  TW_ASSIGN(const std::string text, ReadInput(file));
  TW_ASSIGN(const std::vector<base::Json> bodies, ReadConversations(text, what));
  for (size_t i = 0; i < bodies.size(); ++i) {
    const Result<EncodedChat> chat = EncodeConversation(tokenizer, bodies[i], options);
    if (!chat.ok() && bodies.size() > 1)
      return chat.status().WithContext(fmt::format("conversation {}", i + 1));
    if (!chat.ok()) return chat.status();
    Print(*chat, values);
  }
  return kExitOk;
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = ChatEncodeOptions::Rows();
  rows.push_back(
      {.name = "print",
       .help = "what is written of each conversation; specials in the prompt are spelled",
       .fallback = "both",
       .choices = {"both", "prompt", "ids"}});
  rows.push_back({.name = "json",
                  .kind = OptionKind::kFlag,
                  .help = "one JSON object a line: prompt, token_ids, images, start"});
  rows.push_back({.name = "tokenizer",
                  .help = "tokenizer.json, or a folder that has it; else that of the model",
                  .value_name = "FILE"});
  const std::vector<OptionRow> hub = hub::HubOptions::Rows();
  rows.insert(rows.end(), hub.begin(), hub.end());
  return rows;
}

}  // namespace

Command ChatEncodeCommand() {
  return {
      .name = "chat-encode",
      .about = "Show the prompt and token ids that conversations become (docs/chat.md)",
      .options = Rows(),
      .positionals = {.name = "FILE",
                      .help = "JSON: the body of a chat request ({\"messages\": [...], \"tools\": "
                              "[...], ...}) or its messages alone; or JSONL of them; - or nothing: "
                              "standard input",
                      .least = 0,
                      .most = 1},
      .run = Run};
}

}  // namespace thalweg::tools
