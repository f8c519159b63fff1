#include "api/fake_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/assembler.h"
#include "api/errors.h"
#include "api/requests.h"
#include "engine/sequence_stream.h"

namespace thalweg::api {
namespace {

constexpr std::string_view kEndOfSentence = "<｜end▁of▁sentence｜>";
constexpr float kChosenLogprob = -0.25F;

// Likely enough, and the same in every run: the token itself, then its neighbours by number.
step::PositionLogprobs LogprobsOf(int32_t token, int32_t count, int32_t vocab) {
  step::PositionLogprobs out;
  out.chosen = {.token = token, .logprob = kChosenLogprob, .rank = 1};
  for (int32_t i = 0; i < count; ++i) {
    out.top.push_back({.token = (token + i) % vocab,
                       .logprob = kChosenLogprob - static_cast<float>(i),
                       .rank = i + 1});
  }
  return out;
}

}  // namespace

// A request: its sequences share the sink and what is counted.
struct FakeModel::Request {
  engine::RecordRef record;
  std::unique_ptr<Assembler> assembler;
  StreamCallback callback;
  int64_t max_tokens = 0;
  int32_t logprobs = -1;
  const Answer* answer = nullptr;
  std::vector<std::shared_ptr<Speaker>> speakers;
  int32_t open = 0;  // speakers that have not ended
};

struct FakeModel::Speaker {
  Speaker(std::shared_ptr<Request> whose, int32_t index, const text::Tokenizer* tokenizer)
      : request(std::move(whose)), stream(request->record, index, tokenizer) {}

  std::shared_ptr<Request> request;
  engine::SequenceStream stream;
  size_t line = 0;     // of the answer
  int64_t rounds = 0;  // that are said
  int64_t tokens = 0;
  std::atomic<bool> cancelled = false;
  bool ended = false;
};

FakeModel::FakeModel(FakeScript script, std::shared_ptr<const text::Tokenizer> tokenizer)
    : script_(std::move(script)),
      tokenizer_(std::move(tokenizer)),
      intake_({.tokenizer = tokenizer_.get(),
               .vocab = tokenizer_->vocab_size(),
               .context_tokens = script_.context_tokens,
               .takes_constraints = true}),
      constraints_({.tokenizer = tokenizer_,
                    .vocab = tokenizer_->vocab_size(),
                    .end_tokens = {tokenizer_->IdOfSpecial(kEndOfSentence).value_or(1)},
                    .cache_bytes = int64_t{64} << 20}) {
  for (const FakeAnswer& answer : script_.answers)
    answers_.push_back({.script = answer, .lines = LinesOf(answer)});
  thread_ = std::thread([this] { Run(); });
}

FakeModel::~FakeModel() {
  Drain(true);
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<FakeModel::Line> FakeModel::LinesOf(const FakeAnswer& answer) const {
  std::vector<Line> lines;
  for (const FakePiece& piece : answer.pieces) {
    const std::vector<int32_t> ids = tokenizer_->Encode(piece.text, text::Specials::kRecognise);
    if (answer.whole_pieces || ids.empty()) {
      lines.push_back({.tokens = ids, .delay = piece.delay});
      continue;
    }
    for (const int32_t id : ids) lines.push_back({.tokens = {id}, .delay = piece.delay});
  }
  return lines;
}

const FakeModel::Answer* FakeModel::FindAnswer(const std::vector<int32_t>& prompt) const {
  std::string text;
  for (const Answer& answer : answers_) {
    if (answer.script.match.empty()) return &answer;
    if (text.empty()) text = tokenizer_->Decode(prompt, false);
    if (text.find(answer.script.match) != std::string::npos) return &answer;
  }
  return nullptr;
}

Expected<std::string> FakeModel::Submit(const Prompt& prompt, const SamplingParams& params,
                                        StreamCallback callback, const RequestOptions& options) {
  TW_API_ASSIGN(std::string id, Begin(prompt, params, std::move(callback), options));
  return id;
}

Result<std::string> FakeModel::Begin(const Prompt& prompt, const SamplingParams& params,
                                     StreamCallback callback, const RequestOptions& options) {
  TW_ASSIGN(api::PreparedRequest prepared,
            PrepareRequest(tokenizer_.get(), prompt, params, options));
  engine::GenerateRequest& asked = prepared.request;
  if (asked.id.empty()) asked.id = fmt::format("fake-{}", next_id_.fetch_add(1));
  const Answer* answer = FindAnswer(std::get<std::vector<int32_t>>(asked.prompt));
  if (answer == nullptr) return base::NotFound("no answer of the script matches the prompt");
  if (answer->script.refusal.has_value()) return *answer->script.refusal;
  if (!asked.so_args.empty()) {
    TW_ASSIGN(const engine::Constraints::Compiled compiled,
              constraints_.Compile(asked.so_args, -1));
  }
  auto request = std::make_shared<Request>();
  request->logprobs = asked.sampling.logprobs;
  request->callback = std::move(callback);
  request->answer = answer;
  prepared.output.request_id = asked.id;
  request->assembler =
      std::make_unique<Assembler>(std::move(prepared.output), params, tokenizer_.get());
  TW_ASSIGN(engine::PreparedRequest ready, intake_.Prepare(std::move(asked), {}));
  ready.record->submitted_at = Seconds();
  request->record = ready.record;
  request->max_tokens = ready.sequences.front().max_tokens;
  return Open(std::move(request), ready.sequences.front().prompt);
}

Result<std::string> FakeModel::Open(std::shared_ptr<Request> request,
                                    const std::vector<int32_t>& prompt) {
  const std::string id = request->record->id;
  const auto length = static_cast<int64_t>(prompt.size());
  for (int32_t i = 0; i < request->record->n; ++i) {
    auto speaker = std::make_shared<Speaker>(request, i, tokenizer_.get());
    speaker->stream.OnAdmitted(std::min(request->answer->script.cached_tokens, length),
                               request->record->submitted_at);
    request->speakers.push_back(std::move(speaker));
  }
  if (request->record->wants_prompt_logprobs) {
    std::vector<step::PositionLogprobs> positions;
    for (size_t i = 1; i < prompt.size(); ++i)
      positions.push_back(LogprobsOf(prompt[i], 1, tokenizer_->vocab_size()));
    request->speakers.front()->stream.OnPromptLogprobs(0, positions);
  }
  request->open = request->record->n;
  const auto now = Clock::now();
  const std::scoped_lock lock(mutex_);
  if (draining_) return base::FailedPrecondition("the model takes no new requests: it is stopping");
  if (!open_.emplace(id, request).second)
    return base::InvalidArgument(fmt::format("request id {} is under way already", id));
  ++requests_;
  prompt_tokens_ += static_cast<uint64_t>(length);
  const std::vector<Line>& lines = request->answer->lines;
  const bool at_once = lines.empty() || request->answer->script.stamped;
  const auto first =
      EndOfStep(now + (at_once ? std::chrono::microseconds(0) : lines.front().delay));
  for (const auto& speaker : request->speakers) due_.push({first, speaker});
  changed_.notify_all();
  return id;
}

void FakeModel::Cancel(const std::string& request_id) {
  const std::scoped_lock lock(mutex_);
  const auto at = open_.find(request_id);
  if (at == open_.end()) return;
  for (const auto& speaker : at->second->speakers) {
    speaker->cancelled = true;
    due_.push({Clock::now(), speaker});
  }
  changed_.notify_all();
}

void FakeModel::CancelOne(const std::string& request_id, int index) {
  const std::scoped_lock lock(mutex_);
  const auto at = open_.find(request_id);
  if (at == open_.end()) return;
  const auto& speaker = at->second->speakers[static_cast<size_t>(index)];
  speaker->cancelled = true;
  due_.push({Clock::now(), speaker});
  changed_.notify_all();
}

int64_t FakeModel::Drain(bool abandon) {
  std::vector<std::string> ids;
  {
    const std::scoped_lock lock(mutex_);
    draining_ = true;
    if (abandon) {
      for (const auto& [id, request] : open_) ids.push_back(id);
    }
  }
  for (const std::string& id : ids) Cancel(id);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_.empty() && !speaking_; });
  return static_cast<int64_t>(ids.size());
}

void FakeModel::Run() {
  std::vector<Due> now_due;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (due_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (due_.top().at > now) {
      const Clock::time_point until = due_.top().at;
      changed_.wait_until(lock, until);
      continue;
    }
    now_due.clear();
    for (; !due_.empty() && due_.top().at <= now; due_.pop()) now_due.push_back(due_.top());
    speaking_ = true;
    lock.unlock();
    for (const Due& due : now_due) Speak(due);
    lock.lock();
    speaking_ = false;
    if (open_.empty()) changed_.notify_all();
  }
}

void FakeModel::SayToken(Speaker* speaker, int32_t token) {
  const Request& request = *speaker->request;
  if (speaker->tokens >= request.max_tokens || speaker->stream.ended()) return;
  step::SampledToken said{.token = token};
  if (request.logprobs >= 0)
    said.logprobs = LogprobsOf(token, request.logprobs, tokenizer_->vocab_size());
  speaker->stream.OnToken(said, Seconds());
  ++speaker->tokens;
  ++output_tokens_;
}

bool FakeModel::Say(const Due& due) {
  Speaker* speaker = due.speaker.get();
  if (speaker->tokens > 0 || !speaker->request->answer->script.stamped) return SayLine(speaker);
  const auto at = std::chrono::duration_cast<std::chrono::microseconds>(due.at.time_since_epoch());
  const std::string stamp = fmt::format("{} ", at.count());
  for (const int32_t token : tokenizer_->Encode(stamp, text::Specials::kAsText))
    SayToken(speaker, token);
  return !speaker->request->answer->lines.empty();
}

bool FakeModel::SayLine(Speaker* speaker) {
  const Request& request = *speaker->request;
  const std::vector<Line>& lines = request.answer->lines;
  if (lines.empty() || speaker->rounds >= request.answer->script.times) return false;
  for (const int32_t token : lines[speaker->line].tokens) SayToken(speaker, token);
  if (++speaker->line < lines.size()) return true;
  speaker->line = 0;
  return ++speaker->rounds < request.answer->script.times;
}

void FakeModel::End(Speaker* speaker) {
  const Request& request = *speaker->request;
  const FakeAnswer& script = request.answer->script;
  sched::Finish finish = script.length ? sched::Finish::kLength : sched::Finish::kEndToken;
  Status status;
  if (speaker->cancelled) {
    finish = sched::Finish::kCancelled;
  } else if (speaker->tokens >= request.max_tokens) {
    finish = sched::Finish::kLength;
  } else if (script.failure.has_value()) {
    finish = sched::Finish::kError;
    status = *script.failure;
  }
  speaker->stream.OnFinished(finish, status, Seconds());
}

FakeModel::Clock::time_point FakeModel::EndOfStep(Clock::time_point at) const {
  const Clock::duration step = script_.step;
  if (step.count() == 0) return at;
  const Clock::duration into = at.time_since_epoch() % step;
  return into.count() == 0 ? at : at + step - into;
}

// A line is due a delay after the line before it was, however late that one was said.
void FakeModel::Speak(const Due& due) {
  const std::shared_ptr<Speaker>& speaker = due.speaker;
  if (speaker->ended) return;
  const bool more = !speaker->cancelled && Say(due);
  const bool full = speaker->tokens >= speaker->request->max_tokens;
  if (!speaker->stream.ended() && (!more || full)) End(speaker.get());
  if (speaker->stream.HasNews()) Deliver(speaker.get());
  if (speaker->ended) return;
  const auto delay = speaker->request->answer->lines[speaker->line].delay;
  const std::scoped_lock lock(mutex_);
  due_.push({EndOfStep(due.at + delay), speaker});
}

void FakeModel::Deliver(Speaker* speaker) {
  Request& request = *speaker->request;
  const engine::Output output = speaker->stream.Take();
  if (output.finish != engine::FinishReason::kNone) {
    speaker->ended = true;
    if (--request.open == 0) {
      ++(output.finish == engine::FinishReason::kCancelled ? cancelled_
         : output.finish == engine::FinishReason::kError   ? failed_
                                                           : finished_);
      const std::scoped_lock lock(mutex_);
      open_.erase(request.record->id);
    }
  }
  const RequestOutput* increment = request.assembler->Add(output);
  if (increment != nullptr) request.callback(*increment);
  if (request.open > 0) return;
  request.callback = {};
  request.speakers.clear();
}

std::string FakeModel::MetricsJson() const {
  base::Json json;
  json["requests"] = requests_.load();
  json["finished"] = finished_.load();
  json["cancelled"] = cancelled_.load();
  json["failed"] = failed_.load();
  json["prompt_tokens"] = prompt_tokens_.load();
  json["output_tokens"] = output_tokens_.load();
  const std::scoped_lock lock(mutex_);
  base::Json& scheduler = json["scheduler"];
  scheduler["waiting"] = 0;
  scheduler["running"] = open_.size();
  scheduler["used_blocks"] = open_.size();
  scheduler["free_blocks"] = 1'000'000 - static_cast<int64_t>(open_.size());
  scheduler["cached_blocks"] = 0;
  return json.dump();
}

double FakeModel::Seconds() const {
  return std::chrono::duration<double>(Clock::now() - began_).count();
}

}  // namespace thalweg::api
