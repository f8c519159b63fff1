#include "engine/rank_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace thalweg::engine {
namespace {

constexpr std::chrono::milliseconds kLastAnswers{1'500};
constexpr uint64_t kMaxPlacementBytes = 256 << 20;

RankProcess* running = nullptr;  // of this process; MPI is one for each, too

class RankProcesses : public Ranks {
 public:
  explicit RankProcesses(RankProcess* process) : process_(process) {}

  // They have begun by themselves.
  void Begin(const EngineOptions&, const checkpoint::Checkpoint&, const Sizes&) override {}
  comm::Communicator* group() override { return &process_->world(); }
  bool one_process() const override { return false; }
  int ranks_here() const override { return process_->ranks_here(); }

 private:
  RankProcess* process_;
};

// The beginning of a tensor: what fine-tuned checkpoints of one shape differ in.
void Add(const checkpoint::Checkpoint& checkpoint, const std::string& name, std::string* text) {
  constexpr int64_t kMost = 4096;
  const auto view = checkpoint.Find(name);
  if (!view.has_value()) return;
  const int64_t bytes = view->shape.elements() * tensor::SizeOf(view->dtype);
  text->append(reinterpret_cast<const char*>(view->data),
               static_cast<size_t>(std::min(bytes, kMost)));
}

std::string ContentOf(const checkpoint::Checkpoint& checkpoint) {
  std::string text = checkpoint::ToJson(checkpoint.config());
  for (const char* name : {"embed.weight", "norm.weight", "head.weight"})
    Add(checkpoint, name, &text);
  for (int64_t i = 0; i < checkpoint.config().num_hidden_layers; ++i)
    for (const char* name : {"attn_norm.weight", "ffn.gate.weight", "attn.wq_a.weight"})
      Add(checkpoint, fmt::format("layers.{}.{}", i, name), &text);
  return base::HexOf(base::Sha256Of(text)).substr(0, 16);
}

}  // namespace

Result<std::unique_ptr<RankProcess>> RankProcess::Start() {
  TW_ASSIGN(std::unique_ptr<comm::MpiSession> session, comm::MpiSession::Start());
  return std::unique_ptr<RankProcess>(new RankProcess(std::move(session)));
}

RankProcess* RankProcess::Running() { return running; }

RankProcess::RankProcess(std::unique_ptr<comm::MpiSession> session)
    : session_(std::move(session)), watch_([this](const std::stop_token& stop) { Watch(stop); }) {
  TW_CHECK(running == nullptr);
  running = this;
}

RankProcess::~RankProcess() {
  StopWatching();
  running = nullptr;
}

void RankProcess::StopWatching() {
  if (!watch_.joinable()) return;
  watch_.request_stop();
  watch_.join();
}

void RankProcess::Watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    world().Beat();
    if (const Status status = world().Check(); !status.ok()) {
      std::this_thread::sleep_for(kLastAnswers);
      comm::LeaveBrokenGroup(world(), status);
    }
    std::this_thread::sleep_for(world().limits().period);
  }
}

Status RankProcess::End() {
  StopWatching();
  running = nullptr;
  return session_->End();
}

void RankProcess::Leave(const Status& reason) {
  if (world().Check().ok()) world().Fail(reason);
  StopWatching();  // it may be about to leave itself
  comm::LeaveBrokenGroup(world(), reason);
}

std::unique_ptr<Ranks> MakeRankProcesses(RankProcess* process) {
  process->led_ = true;
  return std::make_unique<RankProcesses>(process);
}

Result<comm::AgreedFields> IdentityOf(const EngineOptions& options,
                                      const checkpoint::Checkpoint& checkpoint) {
  comm::AgreedFields fields = {
      {"checkpoint", ContentOf(checkpoint)},
      {"bytes of the checkpoint", fmt::format("{}", checkpoint.total_bytes())}};
  if (options.expert_placement.empty()) return fields;
  TW_ASSIGN(const std::string text, base::ReadFile(options.expert_placement, kMaxPlacementBytes));
  fields.emplace_back("content of " + options.expert_placement,
                      base::HexOf(base::Sha256Of(text)).substr(0, 16));
  return fields;
}

Status AgreeOnCheckpoint(const EngineOptions& options, const Status& opened,
                         const checkpoint::Checkpoint* checkpoint) {
  RankProcess* process = RankProcess::Running();
  TW_TRY(MeetRanks(&process->world(), opened));
  const Result<comm::AgreedFields> fields = IdentityOf(options, *checkpoint);
  TW_TRY(MeetRanks(&process->world(), fields.status()));
  return process->Agree(*fields);
}

Status AgreeOnSizes(comm::Communicator* group, Sizes* sizes) {
  const std::array<int64_t, 3> own = {sizes->context_tokens, sizes->cache_tokens,
                                      sizes->checkpoints};
  std::vector<std::array<int64_t, 3>> all(static_cast<size_t>(group->size()));
  TW_TRY(group->AllGather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all))));
  for (const auto& other : all) {
    sizes->context_tokens = std::min(sizes->context_tokens, other[0]);
    sizes->cache_tokens = std::min(sizes->cache_tokens, other[1]);
    sizes->checkpoints = std::min(sizes->checkpoints, other[2]);
  }
  return {};
}

}  // namespace thalweg::engine
