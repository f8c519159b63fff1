// One blob being downloaded: hashing what is there, transferring, waiting to try again, done.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "hub/answer.h"
#include "hub/blob_writer.h"
#include "hub/hub.h"
#include "hub/transfer.h"

namespace thalweg::hub {

class BlobJob {
 public:
  using Clock = std::chrono::steady_clock;

  BlobJob(RepoFile file, std::string url, std::unique_ptr<BlobWriter> writer,
          const HubOptions& options);

  // What can be done without waiting: hash a slice, start a transfer, finish. Transfers run in
  // `loop`.
  Status Turn(TransferLoop* loop, Clock::time_point now);
  // The running transfer has finished; only with one running.
  Status TransferDone(Clock::time_point now);
  void Abandon(TransferLoop* loop);

  const Transfer* transfer() const { return transfer_.get(); }
  bool done() const { return done_; }
  bool hashing() const { return !writer_->caught_up(); }
  uint64_t bytes() const { return writer_->bytes(); }
  uint64_t bytes_received() const { return received_; }
  const RepoFile& file() const { return file_; }

 private:
  bool TakeBytes(const AnswerHead& head, std::string_view bytes);
  Status CheckStart(const AnswerHead& head);
  void StartTransfer(TransferLoop* loop);
  Status Finish(Clock::time_point now);
  Status TryAgain(const Verdict& verdict, Clock::time_point now);

  RepoFile file_;
  std::string url_;
  std::unique_ptr<BlobWriter> writer_;
  const HubOptions& options_;
  std::unique_ptr<Transfer> transfer_;
  Clock::time_point not_before_ = {};
  Status take_error_;        // why TakeBytes stopped
  bool body_begun_ = false;  // of this transfer
  uint64_t furthest_ = 0;    // most bytes there ever were at a failure
  int failures_ = 0;         // in a row, none of which came further
  int wrong_hashes_ = 0;
  uint64_t received_ = 0;
  bool done_ = false;
};

}  // namespace thalweg::hub
