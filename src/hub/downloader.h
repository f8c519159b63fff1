// Brings blobs into the cache: several transfers at a time on the caller's thread, each resumed,
// repeated and checked by itself.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/cache.h"
#include "hub/hub.h"
#include "hub/repo_info.h"
#include "hub/transfer.h"

namespace thalweg::hub {

class BlobJob;

class Downloader {
 public:
  // `progress` holds what is there before: totals, files and bytes done.
  Downloader(const RepoCache& cache, const std::string& name, const std::string& commit,
             const HubOptions& options, PullProgress progress);
  ~Downloader();

  // All of `files`, or the first error that cannot be helped. Whatever has arrived stays for the
  // next run.
  Status Run(const std::vector<RepoFile>& files);
  uint64_t bytes_received() const;

 private:
  Status StartJobs();
  Status TurnJobs();
  Status DropFinished();
  Status Stopped() const;
  void Report(bool now);

  const RepoCache& cache_;
  const std::string& name_;
  const std::string& commit_;
  const HubOptions& options_;
  PullProgress progress_;
  std::chrono::steady_clock::time_point begin_, reported_;
  std::deque<RepoFile> waiting_;
  TransferLoop loop_;
  std::vector<std::unique_ptr<BlobJob>> jobs_;  // after loop_: gone before it
};

// The address of a file: ENDPOINT/NAME/resolve/COMMIT/FILE.
std::string FileUrl(const std::string& endpoint, const std::string& name, const std::string& commit,
                    const std::string& file);

// One answer's text, with repetitions; more than `most_bytes` is refused.
Result<std::string> FetchText(const std::string& url, const std::string& what,
                              const HubOptions& options, uint64_t most_bytes);

// Sleeps in slices; kFailedPrecondition as soon as the user has interrupted.
Status WaitOrInterrupt(int64_t wait_ms, const HubOptions& options);

}  // namespace thalweg::hub
