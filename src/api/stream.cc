// OutputStream: a queue between the engine's output thread and whoever iterates.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "api/errors.h"
#include "api/llm_state.h"

namespace thalweg {
namespace {

class Queue {
 public:
  void Push(const RequestOutput& output) {
    const std::scoped_lock lock(mutex_);
    outputs_.push_back(output);
    arrived_.notify_one();
  }

  RequestOutput Pop() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !outputs_.empty(); });
    RequestOutput output = std::move(outputs_.front());
    outputs_.pop_front();
    return output;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<RequestOutput> outputs_;
};

}  // namespace

struct OutputStream::State {
  std::weak_ptr<engine::Engine> engine;
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
  std::string id = {};
  bool finished = false;
};

OutputStream::OutputStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
OutputStream::OutputStream(OutputStream&&) noexcept = default;

OutputStream& OutputStream::operator=(OutputStream&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

OutputStream::~OutputStream() {
  if (state_ != nullptr && !state_->finished) Cancel();
}

std::optional<RequestOutput> OutputStream::Next() {
  if (state_->finished) return std::nullopt;
  RequestOutput output = state_->queue->Pop();
  state_->finished = output.finished;
  return output;
}

const std::string& OutputStream::request_id() const { return state_->id; }

void OutputStream::Cancel() {
  if (const auto engine = state_->engine.lock()) engine->Cancel(state_->id);
}

Expected<OutputStream> LLM::Stream(const Prompt& prompt, const SamplingParams& params,
                                   const RequestOptions& options) {
  auto state = std::make_unique<OutputStream::State>();
  state->engine = state_->engine;
  TW_API_ASSIGN(state->id, state_->Submit(prompt, params, options,
                                          [queue = state->queue](const RequestOutput& out) {
                                            queue->Push(out);
                                          }));
  return OutputStream(std::move(state));
}

}  // namespace thalweg
