#include "hub/downloader.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "base/log.h"
#include "hub/blob_job.h"
#include "hub/limits.h"
#include "hub/names.h"

namespace thalweg::hub {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStepMs = 50;
constexpr auto kReportEvery = std::chrono::milliseconds(200);

bool Interrupted(const HubOptions& options) { return options.interrupted && options.interrupted(); }

Status InterruptedStatus() {
  return base::FailedPrecondition("interrupted: nothing was changed, repeat to continue");
}

}  // namespace

std::string FileUrl(const std::string& endpoint, const std::string& name, const std::string& commit,
                    const std::string& file) {
  return fmt::format("{}/{}/resolve/{}/{}", endpoint, name, commit, PercentEncode(file, "/"));
}

Status WaitOrInterrupt(int64_t wait_ms, const HubOptions& options) {
  const auto end = Clock::now() + std::chrono::milliseconds(wait_ms);
  while (Clock::now() < end) {
    if (Interrupted(options)) return InterruptedStatus();
    poll(nullptr, 0, static_cast<int>(std::min<int64_t>(wait_ms, kStepMs)));
  }
  return {};
}

namespace {

// One attempt. The text is the caller's only with a verdict of kDone.
Result<Verdict> FetchOnce(const std::string& url, const std::string& what,
                          const HubOptions& options, uint64_t most_bytes, std::string* text) {
  text->clear();
  Transfer transfer(
      {.url = url, .token = options.token, .stall_seconds = options.retry.stall_seconds},
      [&](const AnswerHead&, std::string_view bytes) {
        if (bytes.size() > most_bytes - text->size()) return false;
        text->append(bytes);
        return true;
      });
  TransferLoop loop;
  loop.Add(&transfer);
  while (loop.Step(kStepMs).empty()) {
    if (Interrupted(options)) return InterruptedStatus();
  }
  if (transfer.taker_stopped())
    return base::InvalidArgument(
        fmt::format("{}: the answer is longer than the limit of {} bytes", what, most_bytes));
  return JudgeAnswer(transfer, what, !options.token.empty());
}

}  // namespace

Result<std::string> FetchText(const std::string& url, const std::string& what,
                              const HubOptions& options, uint64_t most_bytes) {
  std::string text;
  for (int failures = 0;;) {
    TW_ASSIGN(const Verdict verdict, FetchOnce(url, what, options, most_bytes, &text));
    if (verdict.kind == Verdict::Kind::kDone) return text;
    if (verdict.kind == Verdict::Kind::kGiveUp) return verdict.error;
    if (++failures > options.retry.attempts)
      return verdict.error.WithContext(fmt::format("gave up after {} attempts", failures));
    const int64_t wait_ms = WaitBefore(failures, verdict, options.retry);
    spdlog::info("{}; again in {} ms", verdict.error.message(), wait_ms);
    TW_TRY(WaitOrInterrupt(wait_ms, options));
  }
}

Downloader::Downloader(const RepoCache& cache, const std::string& name, const std::string& commit,
                       const HubOptions& options, PullProgress progress)
    : cache_(cache),
      name_(name),
      commit_(commit),
      options_(options),
      progress_(std::move(progress)),
      begin_(Clock::now()),
      reported_(begin_) {}

Downloader::~Downloader() {
  for (const auto& job : jobs_) job->Abandon(&loop_);
}

Status Downloader::Run(const std::vector<RepoFile>& files) {
  waiting_.assign(files.begin(), files.end());
  while (!waiting_.empty() || !jobs_.empty()) {
    if (Interrupted(options_)) return Stopped();
    TW_TRY(StartJobs());
    TW_TRY(TurnJobs());
    TW_TRY(DropFinished());
    Report(false);
  }
  Report(true);
  return {};
}

Status Downloader::Stopped() const {
  uint64_t kept = progress_.bytes_done;
  for (const auto& job : jobs_) kept += job->bytes();
  return base::FailedPrecondition(fmt::format(
      "interrupted: {} of {} bytes are kept, repeat to continue", kept, progress_.bytes));
}

uint64_t Downloader::bytes_received() const {
  uint64_t bytes = progress_.bytes_received;
  for (const auto& job : jobs_) bytes += job->bytes_received();
  return bytes;
}

Status Downloader::StartJobs() {
  const auto most = static_cast<size_t>(std::clamp(options_.jobs, 1, kMaxJobs));
  while (!waiting_.empty() && jobs_.size() < most) {
    RepoFile file = std::move(waiting_.front());
    waiting_.pop_front();
    TW_ASSIGN(auto writer, BlobWriter::Open(cache_.Incomplete(file), cache_.Blob(file), file));
    std::string url = FileUrl(options_.endpoint, name_, commit_, file.name);
    jobs_.push_back(
        std::make_unique<BlobJob>(std::move(file), std::move(url), std::move(writer), options_));
  }
  return {};
}

// Does not wait for the network while a job has bytes to hash or is done.
Status Downloader::TurnJobs() {
  bool busy = false;
  for (const auto& job : jobs_) {
    TW_TRY(job->Turn(&loop_, Clock::now()));
    busy = busy || job->hashing() || job->done();
  }
  for (const Transfer* finished : loop_.Step(busy ? 0 : kStepMs)) {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& candidate) {
      return candidate->transfer() == finished;
    });
    TW_CHECK(job != jobs_.end());
    TW_TRY((*job)->TransferDone(Clock::now()));
  }
  return {};
}

Status Downloader::DropFinished() {
  for (const auto& job : jobs_) {
    if (!job->done()) continue;
    ++progress_.files_done;
    progress_.bytes_done += job->file().size_bytes;
    progress_.bytes_received += job->bytes_received();
  }
  std::erase_if(jobs_, [](const auto& job) { return job->done(); });
  return {};
}

void Downloader::Report(bool now) {
  const auto time = Clock::now();
  if (!options_.progress || (!now && time - reported_ < kReportEvery)) return;
  reported_ = time;
  PullProgress progress = progress_;
  progress.bytes_received = bytes_received();
  for (const auto& job : jobs_) progress.bytes_done += job->bytes();
  progress.seconds = std::chrono::duration<double>(time - begin_).count();
  options_.progress(progress);
}

}  // namespace thalweg::hub
