#include "server/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "server/services.h"
#include "server/sse.h"

namespace thalweg::server {
namespace {

Delta DeltaOf(const RequestOutput& output) {
  Delta delta;
  if (!output.outputs.empty()) delta.output = output.outputs.front();
  delta.finished = output.finished;
  delta.error = output.error;
  delta.prompt_tokens = static_cast<int64_t>(output.prompt_token_ids.size());
  delta.cached_tokens = output.num_cached_tokens;
  delta.prompt_logprobs = output.prompt_logprobs;
  delta.times = output.metrics;
  return delta;
}

bool AnyStructure(const std::vector<ModelRequest>& requests) {
  return std::ranges::any_of(requests, [](const auto& one) { return !one.params.so_args.empty(); });
}

}  // namespace

Exchange::Exchange(Services* services, Mailbox* mailbox, Responder* responder, Route route,
                   HttpRequest request)
    : services_(services),
      mailbox_(mailbox),
      responder_(responder),
      route_(route),
      request_(std::move(request)) {
  record_.id = request_.id;
  record_.method = request_.method;
  record_.path = route.path.empty() ? request_.path : std::string(route.path);
  record_.caller = request_.caller;
  record_.begin = std::chrono::steady_clock::now();
  if (services_->log != nullptr && services_->log->bodies()) record_.body = request_.body;
}

void Exchange::Start(Admission::Ticket ticket) {
  ticket_ = std::move(ticket);
  const bool small = request_.body.size() <= kSmallBodyBytes &&
                     request_.body.find("\"response_format\"") == std::string::npos &&
                     request_.body.find("\"tools\"") == std::string::npos &&
                     request_.body.find("\"structured_outputs\"") == std::string::npos &&
                     request_.body.find("\"so_args\"") == std::string::npos &&
                     request_.body.find("\"format\"") == std::string::npos;
  if (small) {
    Work(true);
  } else {
    boost::asio::post(services_->workers, [self = shared_from_this()] { self->Work(false); });
  }
}

void Exchange::Deliver(bool inline_work, std::function<void()> task) {
  if (inline_work) {
    task();
  } else {
    mailbox_->Post([self = shared_from_this(), task = std::move(task)] { task(); });
  }
}

void Exchange::Work(bool inline_work) {
  if (abandoned_) return;
  Outcome outcome = route_.handler(request_, *services_);
  if (auto* generation = std::get_if<Generation>(&outcome)) {
    std::vector<ModelRequest> requests = std::move(generation->requests);
    parts_.resize(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      parts_[i].id = fmt::format("{}-{}", request_.id, i);
      const auto n = static_cast<size_t>(std::max(requests[i].params.n, 1));
      parts_[i].last_token_at.resize(n, -1);
      parts_[i].tokens.resize(n);
      parts_[i].stopped.resize(n);
    }
    auto shared = std::make_shared<Generation>(std::move(*generation));
    Deliver(inline_work, [this, shared] { Adopt(std::move(*shared)); });
    if (inline_work && AnyStructure(requests)) return SubmitLater(std::move(requests));
    Submit(inline_work, std::move(requests));
    return;
  }
  auto shared = std::make_shared<Outcome>(std::move(outcome));
  Deliver(inline_work, [this, shared] {
    if (responder_ == nullptr) return;
    auto* response = std::get_if<HttpResponse>(shared.get());
    if (response == nullptr) return Fail(std::get<ApiError>(*shared));
    record_.status = response->status;
    std::exchange(responder_, nullptr)->Respond(std::move(*response));
  });
}

// Grammars are compiled by Submit: not on the thread of the connections.
void Exchange::SubmitLater(std::vector<ModelRequest> requests) {
  auto shared = std::make_shared<std::vector<ModelRequest>>(std::move(requests));
  boost::asio::post(services_->workers, [self = shared_from_this(), shared] {
    self->Submit(false, std::move(*shared));
  });
}

void Exchange::Submit(bool inline_work, std::vector<ModelRequest> requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    if (abandoned_) break;
    ModelRequest& one = requests[i];
    one.params.output_kind = OutputKind::kDelta;
    one.options.request_id = parts_[i].id;
    Expected<std::string> id =
        services_->model->Submit(one.prompt, one.params, CallbackOf(i), one.options);
    if (!id.ok() && one.relaxed && id.error().code == ErrorCode::kUnsupported) {
      services_->metrics.OnRelaxed();
      one.params.so_args.clear();
      id = services_->model->Submit(one.prompt, one.params, CallbackOf(i), one.options);
    }
    if (id.ok()) {
      services_->metrics.OnAsked(one.params);
      continue;
    }
    ApiError error = ToApiError(id.error());
    NameField(one.source, &error);
    return Deliver(inline_work, [this, error] { OnRefused(error); });
  }
  Deliver(inline_work, [this] { OnAccepted(); });
}

StreamCallback Exchange::CallbackOf(size_t request) {
  return [self = shared_from_this(), request](const RequestOutput& output) {
    self->mailbox_->Post(self, request, DeltaOf(output));
  };
}

void Exchange::Adopt(Generation generation) {
  reply_ = std::move(generation.reply);
  stream_ = generation.stream;
  record_.stream = stream_;
}

// The head goes out when the model has taken all requests: until then an error has a status.
void Exchange::OnAccepted() {
  accepted_ = true;
  if (responder_ == nullptr) return CancelUnfinished();
  if (stream_ && !began_) {
    BeginStreamOnce();
    responder_->Flush();
  }
}

void Exchange::OnRefused(const ApiError& error) {
  accepted_ = true;
  Fail(error);
  CancelUnfinished();
}

void Exchange::BeginStreamOnce() {
  if (began_) return;
  began_ = true;
  record_.status = 200;
  record_.first_byte = std::chrono::steady_clock::now();
  responder_->BeginStream(
      {.content_type = "text/event-stream; charset=utf-8",
       .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
  text_.clear();
  reply_->Begin(&text_);
  responder_->Write(text_);
}

void Exchange::Note(size_t request, const Delta& delta) {
  Part& part = parts_[request];
  const auto tokens = static_cast<int64_t>(delta.output.token_ids.size());
  const auto index = static_cast<size_t>(delta.output.index);
  if (tokens > 0 && index < part.last_token_at.size()) {
    const double before = part.last_token_at[index];
    services_->metrics.OnTokens(delta.times, tokens,
                                before < 0 ? -1 : delta.times.last_token_at - before);
    part.last_token_at[index] = delta.times.last_token_at;
    part.tokens[index] += tokens;
  }
  if (!delta.output.finish_reason.empty()) {
    const bool stopped = index < part.stopped.size() && part.stopped[index];
    services_->metrics.OnFinish(stopped ? std::string_view("stop")
                                        : std::string_view(delta.output.finish_reason));
    services_->metrics.OnSequence({.prompt = delta.prompt_tokens,
                                   .cached = delta.cached_tokens,
                                   .tokens = index < part.tokens.size() ? part.tokens[index] : 0,
                                   .times = delta.times});
  }
  part.finished = delta.finished;
}

bool Exchange::AllFinished() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.finished; });
}

void Exchange::Take(size_t request, const Delta& delta) {
  Note(request, delta);
  if (AllFinished()) ticket_ = Admission::Ticket();  // its place is free, whoever still holds this
  if (responder_ == nullptr) return;
  if (delta.error.has_value()) return TakeFailure(request, delta);
  if (stream_) BeginStreamOnce();
  text_.clear();
  reply_->Take(request, delta, &text_);
  if (stream_) {
    responder_->Write(text_);
    responder_->Flush();
  }
  StopSatisfied(request, delta);
  FinishWhenComplete();
}

// A sequence that has said its answer is ended alone; the others go on.
void Exchange::StopSatisfied(size_t request, const Delta& delta) {
  Part& part = parts_[request];
  const auto index = static_cast<size_t>(delta.output.index);
  if (!delta.output.finish_reason.empty() || part.cancelled || part.stopped[index]) return;
  if (!reply_->Satisfied(request, index)) return;
  part.stopped[index] = true;
  services_->model->CancelOne(part.id, delta.output.index);
}

// What came before it is still a part of the stream.
void Exchange::TakeFailure(size_t request, const Delta& delta) {
  if (began_) {
    Delta before = delta;
    before.output.finish_reason.clear();
    text_.clear();
    reply_->Take(request, before, &text_);
    responder_->Write(text_);
  }
  Fail(ToApiError(*delta.error));
  CancelUnfinished();
}

// A reader that is too far behind may have been cut off by the last increment.
void Exchange::FinishWhenComplete() {
  if (responder_ == nullptr || !AllFinished()) return;
  record_.usage = reply_->usage();
  record_.finish = reply_->finish_reason();
  text_.clear();
  reply_->End(&text_);
  Responder* responder = std::exchange(responder_, nullptr);
  if (!stream_) {
    record_.status = 200;
    return responder->Respond({.body = std::move(text_)});
  }
  responder->Write(text_);
  responder->EndStream();
}

void Exchange::Fail(const ApiError& error) {
  if (responder_ == nullptr) return;
  record_.error = error.message;
  Responder* responder = std::exchange(responder_, nullptr);
  if (!began_) {
    HttpResponse response = ErrorResponse(error, route_.dialect);
    record_.status = response.status;
    return responder->Respond(std::move(response));
  }
  text_.clear();
  reply_->Fail(error, &text_);
  responder->Write(text_);
  responder->EndStream();
}

void Exchange::CancelUnfinished() {
  for (Part& part : parts_) {
    if (part.finished || part.cancelled) continue;
    part.cancelled = true;
    services_->model->Cancel(part.id);
  }
}

void Exchange::Abandon() {
  abandoned_ = true;
  if (responder_ == nullptr) return;
  responder_ = nullptr;
  record_.status = kClientClosed;
  services_->metrics.OnAbort("disconnect");
  // Before that the worker sees the flag, and OnAccepted cancels what it had submitted.
  if (accepted_) CancelUnfinished();
}

void Exchange::KeepAlive() {
  if (responder_ == nullptr || !began_) return;
  responder_->Write(kKeepAliveComment);
  responder_->Flush();
}

}  // namespace thalweg::server
