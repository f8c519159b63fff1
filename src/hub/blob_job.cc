#include "hub/blob_job.h"

#include <fmt/format.h>

#include "base/log.h"

namespace thalweg::hub {
namespace {

constexpr uint64_t kHashSliceBytes = 32u << 20;
constexpr int kWrongHashesAllowed = 1;  // what an earlier run left may have rotted; twice is a lie

}  // namespace

BlobJob::BlobJob(RepoFile file, std::string url, std::unique_ptr<BlobWriter> writer,
                 const HubOptions& options)
    : file_(std::move(file)), url_(std::move(url)), writer_(std::move(writer)), options_(options) {}

Status BlobJob::Turn(TransferLoop* loop, Clock::time_point now) {
  if (done_ || transfer_ != nullptr || now < not_before_) return {};
  if (!writer_->caught_up()) return writer_->CatchUp(kHashSliceBytes);
  if (writer_->complete()) return Finish(now);
  StartTransfer(loop);
  return {};
}

void BlobJob::StartTransfer(TransferLoop* loop) {
  body_begun_ = false;
  take_error_ = {};
  transfer_ = std::make_unique<Transfer>(
      TransferRequest{.url = url_,
                      .token = options_.token,
                      .begin = writer_->bytes(),
                      .stall_seconds = options_.retry.stall_seconds},
      [this](const AnswerHead& head, std::string_view bytes) { return TakeBytes(head, bytes); });
  loop->Add(transfer_.get());
}

// A 206 must begin where we asked; a 200 begins at zero whatever we asked. Both end where the file
// does: another length is another file, such as the page of a proxy that wants a login.
Status BlobJob::CheckStart(const AnswerHead& head) {
  const uint64_t begin = head.status == 200 ? 0 : writer_->bytes();
  if (head.status == 206 && head.range_begin != begin)
    return base::InvalidArgument(
        fmt::format("{}: the server sends another range than the one asked for", file_.name));
  const uint64_t rest = file_.size_bytes - begin;
  if (head.content_length.value_or(rest) != rest)
    return base::InvalidArgument(
        fmt::format("{}: the server sends {} bytes where {} were announced", file_.name,
                    *head.content_length, rest));
  return begin < writer_->bytes() ? writer_->StartOver() : Status();
}

bool BlobJob::TakeBytes(const AnswerHead& head, std::string_view bytes) {
  if (!body_begun_) take_error_ = CheckStart(head);
  if (!take_error_.ok()) return false;
  body_begun_ = true;
  take_error_ = writer_->Append(bytes);
  if (!take_error_.ok()) return false;
  received_ += bytes.size();
  return true;
}

Status BlobJob::TransferDone(Clock::time_point now) {
  const std::unique_ptr<Transfer> transfer = std::move(transfer_);
  if (transfer->taker_stopped()) {
    // A body that ran over its size is worth nothing; what came before a refused one or a full disk
    // is.
    const bool ran_over = body_begun_ && take_error_.code() == base::Code::kInvalidArgument;
    if (ran_over) TW_TRY(writer_->StartOver());
    return take_error_;
  }
  Verdict verdict = JudgeAnswer(*transfer, file_.name, !options_.token.empty());
  if (verdict.kind == Verdict::Kind::kGiveUp) return verdict.error;
  if (verdict.kind == Verdict::Kind::kRetry) return TryAgain(verdict, now);
  if (writer_->complete()) return Finish(now);
  verdict.error = base::IoError(fmt::format("{}: the server sent {} of {} bytes", file_.name,
                                            writer_->bytes(), file_.size_bytes));
  return TryAgain(verdict, now);
}

Status BlobJob::Finish(Clock::time_point now) {
  const Status finished = writer_->Finish();
  done_ = finished.ok();
  if (done_ || finished.code() != base::Code::kInvalidArgument) return finished;
  if (++wrong_hashes_ > kWrongHashesAllowed) {
    return {finished.code(),
            finished.message() + "; the server or a proxy sends other bytes than it announces"};
  }
  return TryAgain({.kind = Verdict::Kind::kRetry, .error = finished}, now);
}

Status BlobJob::TryAgain(const Verdict& verdict, Clock::time_point now) {
  const bool further = writer_->bytes() > furthest_;
  failures_ = further ? 1 : failures_ + 1;
  if (further) furthest_ = writer_->bytes();
  if (failures_ > options_.retry.attempts)
    return verdict.error.WithContext(fmt::format("gave up after {} attempts", failures_));
  if (verdict.start_over) TW_TRY(writer_->StartOver());
  const int64_t wait_ms = WaitBefore(failures_, verdict, options_.retry);
  not_before_ = now + std::chrono::milliseconds(wait_ms);
  spdlog::info("{}; again in {} ms", verdict.error.message(), wait_ms);
  return {};
}

void BlobJob::Abandon(TransferLoop* loop) {
  if (transfer_ != nullptr && !transfer_->finished()) loop->Remove(transfer_.get());
  transfer_.reset();
}

}  // namespace thalweg::hub
