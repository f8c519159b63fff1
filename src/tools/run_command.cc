// `thalweg run`: answers a prompt, or chats on a terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/mapped_file.h"
#include "engine/constraints.h"
#include "text/chat_encoding.h"
#include "text/stream_decoder.h"
#include "tools/chat_encode.h"
#include "tools/command.h"
#include "tools/constraint_options.h"
#include "tools/generate.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace thalweg::tools {
namespace {

constexpr int64_t kDefaultMaxTokens = 1024;
constexpr uint64_t kMaxPromptBytes = 256ull << 20;
constexpr std::string_view kThinkEnd = "</think>";

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = ModelOptionRows();
  for (OptionRow& row : ReplayOptionRows("compact")) rows.push_back(std::move(row));
  for (OptionRow& row : engine::EngineOptions::RankRows()) rows.push_back(std::move(row));
  const std::vector<OptionRow> own = {
      {.name = "file",
       .help = "read the prompt from a file; - for standard input",
       .value_name = "FILE"},
      {.name = "system", .help = "system text", .value_name = "TEXT"},
      {.name = "chat",
       .help = "answer a conversation: a JSON file with the body of a chat request (messages, "
               "tools, ...) as chat-encode takes it, or - for standard input; it says how hard the "
               "model thinks",
       .value_name = "FILE"},
      {.name = "think",
       .kind = OptionKind::kFlag,
       .help = "let the model reason first; the reasoning goes to stderr"},
      {.name = "effort",
       .help = "reasoning effort with --think: low, high, max or 1..100",
       .fallback = "high"},
      {.name = "raw",
       .kind = OptionKind::kFlag,
       .help = "complete the text as it is, without the chat encoding; special "
               "tokens in it stay text"},
      {.name = "specials",
       .kind = OptionKind::kFlag,
       .help = "with --raw: text that spells a special token becomes one"},
      {.name = "max-tokens",
       .kind = OptionKind::kInteger,
       .help = "longest answer; default 1024, or what the context leaves",
       .least = 1,
       .most = 1e9},
      {.name = "temperature",
       .kind = OptionKind::kReal,
       .help = "0: greedy; default: generation_config.json",
       .most = 100},
      {.name = "top-k",
       .kind = OptionKind::kInteger,
       .help = "keep the k best tokens; 0: all",
       .most = 1e9},
      {.name = "top-p",
       .kind = OptionKind::kReal,
       .help = "keep the best tokens up to this mass",
       .most = 1},
      {.name = "min-p",
       .kind = OptionKind::kReal,
       .help = "drop tokens below this share of the best",
       .most = 1},
      {.name = "seed",
       .kind = OptionKind::kInteger,
       .help = "of the sampling noise; without it a new one each time",
       .least = 0,
       .most = 9.2e18},
      {.name = "stats",
       .kind = OptionKind::kFlag,
       .help = "print timing, token counts and a digest of the logits to stderr"},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  for (OptionRow& row : ConstraintOptionRows()) rows.push_back(std::move(row));
  return rows;
}

uint64_t ChooseSeed(const OptionValues& values) {
  const std::optional<int64_t> seed = values.OptionalInteger("seed");
  if (seed.has_value()) return static_cast<uint64_t>(*seed);
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
}

// The checkpoint's recommended sampling, with what the user changed.
step::SamplingParams ChooseSampling(const OptionValues& values,
                                    const checkpoint::GenerationDefaults& defaults) {
  step::SamplingParams params;
  params.temperature =
      values.OptionalReal("temperature").value_or(defaults.do_sample ? defaults.temperature : 0.0);
  params.top_k = values.OptionalInteger("top-k").value_or(defaults.top_k);
  params.top_p = values.OptionalReal("top-p").value_or(defaults.top_p);
  params.min_p = values.OptionalReal("min-p").value_or(defaults.min_p);
  params.seed = ChooseSeed(values);
  return params;
}

std::string ReadStandardInput() {
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

// The prompt text; nothing when the user should be asked on a terminal.
Result<std::optional<std::string>> PromptText(const OptionValues& values) {
  const std::vector<std::string>& arguments = values.positionals();
  if (!arguments.empty() && values.Has("file")) {
    return base::InvalidArgument("give the prompt as an argument or with --file, not both");
  }
  const bool ask = arguments.empty() && !values.Has("file");
  if (ask && isatty(STDIN_FILENO) == 1) return std::optional<std::string>();
  const std::string source = ask ? "-" : values.Text("file");
  if (source == "-" || (!arguments.empty() && arguments[0] == "-"))
    return std::optional(ReadStandardInput());
  if (!arguments.empty()) return std::optional(arguments[0]);
  TW_ASSIGN(std::string text, base::ReadFile(source, kMaxPromptBytes));
  return std::optional(std::move(text));
}

// Prints text as its tokens arrive: reasoning to stderr, the answer to stdout.
class Printer {
 public:
  Printer(const text::Tokenizer& tokenizer, bool thinking)
      : decoder_(tokenizer),
        thinking_(thinking),
        think_end_(tokenizer.IdOfSpecial(kThinkEnd).value_or(-1)) {}

  bool Push(int32_t token) {
    if (thinking_ && token == think_end_) {
      Emit(decoder_.Flush());
      fmt::print(stderr, "\n");
      thinking_ = false;
    } else {
      Emit(decoder_.Push(token));
    }
    return true;
  }

  void Finish() {
    Emit(decoder_.Flush());
    Emit("\n");
  }
  const std::string& answer() const { return answer_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  void Emit(const std::string& text) {
    (thinking_ ? reasoning_ : answer_) += text;
    std::FILE* out = thinking_ ? stderr : stdout;
    std::fwrite(text.data(), 1, text.size(), out);
    std::fflush(out);
  }

  text::StreamDecoder decoder_;
  bool thinking_;
  int32_t think_end_;
  std::string answer_;
  std::string reasoning_;
};

void PrintStatistics(const Session& session, const GenerateResult& r) {
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  fmt::print(stderr, "load        {:.3f} s\n", session.load_seconds);
  fmt::print(stderr, "prompt      {} tokens, {:.3f} s, {:.1f} tok/s\n", r.prompt_tokens,
             r.prefill_seconds, rate(r.prompt_tokens, r.prefill_seconds));
  fmt::print(stderr, "generated   {} tokens, {:.3f} s, {:.1f} tok/s, finish: {}\n", r.tokens.size(),
             r.decode_seconds, rate(r.decode_steps, r.decode_seconds), FinishReasonName(r.finish));
  fmt::print(stderr, "logits      {:016x}\n", r.logits_digest);
}

// One conversation with one loaded model.
class Conversation {
 public:
  Conversation(const OptionValues& values, Session* session)
      : values_(values), session_(*session) {}

  Status Prepare() {
    options_.sampling = ChooseSampling(values_, session_.defaults);
    TW_TRY(sampling::Validate(options_.sampling, session_.config().vocab_size));
    TW_ASSIGN(options_.replay, ReplayFrom(values_, session_.config()));
    options_.end_tokens = session_.EndTokens();
    TW_TRY(PrepareConstraint());
    options_.interrupted = [] { return SignalCount() > 0; };
    chat_options_.thinking = values_.Flag("think");
    chat_options_.drop_thinking = true;
    TW_ASSIGN(chat_options_.effort, text::ParseEffort(values_.Text("effort")));
    if (values_.Has("system"))
      chat_.messages.push_back({.role = text::Role::kSystem, .content = values_.Text("system")});
    return {};
  }

  // Answers one user message and remembers both.
  Status Ask(std::string message) {
    if (message.empty()) return base::InvalidArgument("the prompt is empty");
    chat_.messages.push_back({.content = std::move(message)});
    const Status status = AnswerTurns();
    if (!status.ok())
      chat_.messages.pop_back();  // a refused message is no part of the conversation
    return status;
  }

  Status Complete(const std::string& text) {
    if (text.empty()) return base::InvalidArgument("the prompt is empty");
    const auto mode =
        values_.Flag("specials") ? text::Specials::kRecognise : text::Specials::kAsText;
    std::vector<int32_t> ids = session_.tokenizer->Encode(text, mode);
    const auto bos = static_cast<int32_t>(session_.config().bos_token_id);
    if (ids.empty() || ids.front() != bos) ids.insert(ids.begin(), bos);
    return Answer(ids, false);
  }

  // Answers a whole conversation.
  Status AnswerBody(const base::Json& body) {
    ChatEncodeOptions options;
    options.chat = chat_options_;
    if (values_.Has("think")) options.thinking = chat_options_.thinking;
    TW_ASSIGN(const EncodedChat chat, EncodeConversation(*session_.tokenizer, body, options));
    if (!chat.images.empty())
      return base::Unsupported("images: this command reads text only; leave them out");
    return Answer(chat.ids, chat.start.ends_with("reasoning"));
  }

  // An answer was cut before it was what it has to be.
  bool cut() const { return cut_; }

 private:
  Status PrepareConstraint() {
    TW_ASSIGN(so_args_, SoArgsFrom(values_));
    if (so_args_.empty()) return {};
    constraints_ = std::make_unique<engine::Constraints>(
        engine::Constraints::Options{.tokenizer = session_.tokenizer,
                                     .vocab = session_.config().vocab_size,
                                     .end_tokens = options_.end_tokens,
                                     .cache_bytes = int64_t{1} << 30});
    return constraints_->Compile(so_args_, -1).status();
  }

  // Each answer begins anew; behind the reasoning, where there is one.
  Status BeginConstraint(bool thinking) {
    if (constraints_ == nullptr) return {};
    const int32_t end = session_.tokenizer->IdOfSpecial(kThinkEnd).value_or(-1);
    TW_ASSIGN(const engine::Constraints::Compiled compiled,
              constraints_->Compile(so_args_, thinking ? end : -1));
    constraints_->Close(kSequence, 1);
    constraints_->Open(kSequence, 1, compiled);
    masks_ = constraints_->Find(kSequence);
    options_.masks = masks_.get();
    return {};
  }

  void ReportCut(const GenerateResult& result) {
    const bool length =
        result.finish == FinishReason::kLength || result.finish == FinishReason::kContext;
    if (constraints_ == nullptr || !length) return;
    cut_ = true;
    fmt::print(stderr,
               "thalweg: the answer was cut after {} tokens and is not "
               "complete: raise --max-tokens\n",
               result.tokens.size());
  }

  Status AnswerTurns() {
    TW_ASSIGN(const std::vector<int32_t> prompt,
              text::EncodeChat(*session_.tokenizer, chat_, chat_options_));
    return Answer(prompt, chat_options_.thinking);
  }

  // What was asked for must fit; the default takes what the context leaves.
  Status ChooseMaxTokens(int64_t prompt_tokens) {
    const int64_t room = session_.config().max_position_embeddings - prompt_tokens;
    const std::optional<int64_t> asked = values_.OptionalInteger("max-tokens");
    options_.max_new_tokens =
        asked.value_or(std::min(kDefaultMaxTokens, std::max<int64_t>(room, 1)));
    if (!asked.has_value() || *asked <= room || room < 1) return {};
    return base::OutOfRange(
        fmt::format("the prompt has {} tokens and --max-tokens is {}: the "
                    "context of {} leaves {}",
                    prompt_tokens, *asked, session_.config().max_position_embeddings, room));
  }

  Status Answer(const std::vector<int32_t>& prompt, bool thinking) {
    TW_TRY(ChooseMaxTokens(static_cast<int64_t>(prompt.size())));
    TW_TRY(BeginConstraint(thinking));
    Printer printer(*session_.tokenizer, thinking);
    options_.on_token = [&](int32_t token) { return printer.Push(token); };
    TW_ASSIGN(const GenerateResult result, Generate(*session_.model, prompt, options_));
    printer.Finish();
    ReportCut(result);
    if (values_.Flag("stats")) PrintStatistics(session_, result);
    if (result.finish == FinishReason::kStopped) {
      fmt::print(stderr, "thalweg: stopped by {}: the answer is abandoned after {} tokens\n",
                 SignalName(), result.tokens.size());
    }
    chat_.messages.push_back({.role = text::Role::kAssistant,
                              .content = printer.answer(),
                              .reasoning = printer.reasoning()});
    return {};
  }

  const OptionValues& values_;
  Session& session_;
  GenerateOptions options_;
  text::ChatOptions chat_options_;
  text::Conversation chat_;

  static constexpr uint64_t kSequence = 1;  // there is one at a time
  std::string so_args_;                     // empty: answers may be anything
  std::unique_ptr<engine::Constraints> constraints_;
  std::shared_ptr<exec::TokenMasks> masks_;
  bool cut_ = false;
};

Status Chat(Conversation* conversation) {
  fmt::print(stderr, "Type a message, an empty line or Ctrl-D to leave.\n");
  std::string line;
  while (fmt::print(stderr, "> "), std::getline(std::cin, line) && !line.empty()) {
    const Status status = conversation->Ask(line);
    if (!status.ok()) fmt::print(stderr, "thalweg: {}\n", status.ToString());
    if (SignalCount() > 0) break;
  }
  return {};
}

// It drives the model itself, a token at a time.
Status CheckNoDrafts(const OptionValues& values) {
  if (values.OptionalInteger("nextn").value_or(0) == 0) return {};
  return base::Unsupported(
      "run answers without speculative decoding: leave out --nextn (DEEPINFER_USE_NEXTN_DECODE) or "
      "set it to 0; batch and bench throughput draft");
}

// The conversation of --chat; null without it.
Result<base::Json> ConversationBody(const OptionValues& values) {
  if (!values.Has("chat")) return base::Json();
  if (!values.positionals().empty() || values.Has("file") || values.Has("system") ||
      values.Flag("raw"))
    return base::InvalidArgument(
        "--chat is a whole conversation: leave out the prompt, --file, --system and --raw");
  const std::string file = values.Text("chat");
  std::string text;
  if (file == "-") {
    text = ReadStandardInput();
  } else {
    TW_ASSIGN(text, base::ReadFile(file, kMaxPromptBytes));
  }
  return base::ParseJson(text, file == "-" ? "standard input" : file, text::kChatJsonLimits);
}

Status AnswerAll(const OptionValues& values, const base::Json& body,
                 const std::optional<std::string>& prompt, Conversation* conversation) {
  if (!body.is_null()) return conversation->AnswerBody(body);
  if (!prompt.has_value()) return Chat(conversation);
  return values.Flag("raw") ? conversation->Complete(*prompt) : conversation->Ask(*prompt);
}

Result<int> Run(const OptionValues& values) {
  TW_TRY(CheckNoDrafts(values));
  TW_ASSIGN(const base::Json body, ConversationBody(values));
  std::optional<std::string> prompt;
  if (body.is_null()) {
    TW_ASSIGN(prompt, PromptText(values));
  }
  CatchSignals(SecondSignal::kKills);
  TW_ASSIGN(SessionOptions session_options, SessionOptions::From(values));
  TW_ASSIGN(session_options.ranks, engine::EngineOptions::ForwardFrom(values));
  TW_ASSIGN(Session session, OpenSession(session_options));
  Conversation conversation(values, &session);
  TW_TRY(conversation.Prepare());
  TW_TRY(AnswerAll(values, body, prompt, &conversation));
  if (SignalCount() > 0) return SignalExitCode();
  return conversation.cut() ? kExitCheckFailed : kExitOk;
}

}  // namespace

Command RunCommand() {
  return {.name = "run",
          .about = "Answer a prompt with the model, or chat on a terminal",
          .options = Rows(),
          .positionals = {.name = "PROMPT",
                          .help = "the user's message; - reads standard input",
                          .least = 0,
                          .most = 1},
          .run = Run};
}

}  // namespace thalweg::tools
