// LLM::Generate: many requests at once, waited for together.
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "api/errors.h"
#include "api/llm_state.h"

namespace thalweg {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kProgressInterval(100);

// Results as they come. Shared with the callbacks, which run on the engine's output thread.
class Gathering {
 public:
  explicit Gathering(size_t total) : results_(total) { progress_.total = total; }

  void Put(size_t index, RequestOutput output) {
    const std::scoped_lock lock(mutex_);
    for (const CompletionOutput& one : output.outputs)
      progress_.output_tokens += static_cast<int64_t>(one.token_ids.size());
    results_.at(index) = std::move(output);
    if (++progress_.done == progress_.total) all_done_.notify_all();
  }

  bool WaitSome() {
    std::unique_lock lock(mutex_);
    return all_done_.wait_for(lock, kProgressInterval,
                              [this] { return progress_.done == progress_.total; });
  }

  void WaitAll() {
    std::unique_lock lock(mutex_);
    all_done_.wait(lock, [this] { return progress_.done == progress_.total; });
  }

  GenerateProgress progress() const {
    const std::scoped_lock lock(mutex_);
    GenerateProgress progress = progress_;
    progress.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    return progress;
  }

  std::vector<RequestOutput> Take() {
    const std::scoped_lock lock(mutex_);
    return std::move(results_);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable all_done_;
  std::vector<RequestOutput> results_;
  GenerateProgress progress_;
  Clock::time_point begin_ = Clock::now();
};

RequestOutput Refused(const Prompt& prompt, const Status& status) {
  RequestOutput output;
  if (const auto* text = std::get_if<std::string>(&prompt)) output.prompt = *text;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) output.prompt_token_ids = *ids;
  output.finished = true;
  output.error = api::ToError(status);
  return output;
}

std::optional<Error> CheckCall(size_t prompts, size_t params, const GenerateOptions& options) {
  const auto bad = [](std::string message) {
    return Error{ErrorCode::kInvalidArgument, std::move(message)};
  };
  if (prompts == 0) return bad("there is no prompt: give one at least");
  if (params != 1 && params != prompts) {
    return bad(fmt::format("{} prompts with {} sampling params: give one for all, or one for each",
                           prompts, params));
  }
  if (!options.request.request_id.empty())
    return bad("Generate names its requests itself: leave request_id empty");
  return std::nullopt;
}

}  // namespace

Expected<std::vector<RequestOutput>> LLM::Generate(std::span<const Prompt> prompts,
                                                   std::span<const SamplingParams> params,
                                                   const GenerateOptions& options) {
  if (auto error = CheckCall(prompts.size(), params.size(), options); error.has_value())
    return *error;
  auto gathering = std::make_shared<Gathering>(prompts.size());
  std::vector<std::string> ids;
  for (size_t i = 0; i < prompts.size(); ++i) {
    SamplingParams own = params[params.size() == 1 ? 0 : i];
    own.output_kind = OutputKind::kFinalOnly;
    const Result<std::string> id =
        state_->Submit(prompts[i], own, options.request,
                       [gathering, i](const RequestOutput& output) { gathering->Put(i, output); });
    if (id.ok()) {
      ids.push_back(*id);
    } else {
      gathering->Put(i, Refused(prompts[i], id.status()));
    }
  }
  bool go_on = true;
  while (go_on && !gathering->WaitSome()) {
    if (options.progress) go_on = options.progress(gathering->progress());
  }
  if (!go_on) {
    for (const std::string& id : ids) Cancel(id);
  }
  gathering->WaitAll();
  if (options.progress) options.progress(gathering->progress());
  return gathering->Take();
}

Expected<std::vector<RequestOutput>> LLM::Generate(const std::vector<Prompt>& prompts,
                                                   const SamplingParams& params,
                                                   const GenerateOptions& options) {
  return Generate(std::span(prompts), std::span(&params, 1), options);
}

Expected<RequestOutput> LLM::Chat(const Conversation& conversation, const SamplingParams& params) {
  Expected<std::vector<RequestOutput>> outputs = Generate({Prompt(conversation)}, params);
  if (!outputs.ok()) return outputs.error();
  if (!outputs->front().ok()) return *outputs->front().error;
  return std::move(outputs->front());
}

}  // namespace thalweg
