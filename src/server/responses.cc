// POST /v1/responses.
#include <fmt/format.h>

#include <utility>

#include "server/endpoints.h"
#include "server/handle.h"
#include "server/responses_reply.h"
#include "server/responses_request.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

Result<Generation> MakeGeneration(const Json& body, const HttpRequest& request,
                                  Services& services) {
  TW_ASSIGN(ResponsesCall call, ReadResponsesCall(body, services));
  TW_ASSIGN(ChatPlan plan, PlanChat(std::move(call.fields), services));
  const text::Tokenizer& tokenizer = services.model->tokenizer();
  TW_ASSIGN(auto decoders,
            ChatReply::MakeDecoders(plan, tokenizer, fmt::format("call_{}_", request.id)));
  ResponsesReply::Shape shape{.stream = call.stream,
                              .custom_tools = std::move(call.custom_tools),
                              .echoed = std::move(call.echoed)};
  Generation generation{.stream = call.stream};
  generation.reply = std::make_unique<ResponsesReply>(
      AnswerHead::Make("resp_", request.id, services.model->name()), request.id, plan,
      std::move(shape), std::move(decoders), &tokenizer, &services.metrics);
  generation.requests.push_back(std::move(plan.request));
  return generation;
}

}  // namespace

Outcome HandleResponses(const HttpRequest& request, Services& services) {
  return HandleBody(request, services,
                    [&](const Json& body) { return MakeGeneration(body, request, services); });
}

}  // namespace thalweg::server
