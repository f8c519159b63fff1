// Pull: what the Hub has, what the disk has, the difference, then links and the reference.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "base/math.h"
#include "hub/cache.h"
#include "hub/downloader.h"
#include "hub/hub.h"
#include "hub/limits.h"
#include "hub/names.h"
#include "hub/repo_info.h"
#include "hub/repo_lock.h"
#include "hub/size_text.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;

Status CheckPull(const std::string& name, const HubOptions& options) {
  TW_TRY(CheckRepoName(name));
  if (!options.revision.empty()) TW_TRY(CheckRevision(options.revision));
  if (options.offline)
    return base::FailedPrecondition("offline (--offline, HF_HUB_OFFLINE): nothing is downloaded");
  if (options.cache.empty())
    return base::FailedPrecondition("no place for the Hugging Face cache: set HF_HUB_CACHE");
  return {};
}

void Notice(const HubOptions& options, const std::string& sentence) {
  if (options.notice) return options.notice(sentence);
  spdlog::warn("{}", sentence);
}

// A token on an open wire can be read by anyone on the way; a mirror on this machine has no way.
void WarnOfOpenToken(const HubOptions& options) {
  const std::string& endpoint = options.endpoint;
  const bool own = endpoint.starts_with("http://127.") || endpoint.starts_with("http://localhost");
  if (options.token.empty() || own || endpoint.starts_with("https://")) return;
  Notice(options, fmt::format("the token is sent to {} without encryption", endpoint));
}

Result<RepoInfo> AskInfo(const std::string& name, const std::string& revision,
                         const HubOptions& options) {
  const std::string url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", options.endpoint,
                                      name, PercentEncode(revision, ""));
  const std::string what = fmt::format("{} at {}", name, revision);
  TW_ASSIGN(const std::string text, FetchText(url, what, options, kMaxInfoBytes));
  Result<RepoInfo> info = ParseRepoInfo(text);
  if (!info.ok()) return info.status().WithContext(what);
  info = SelectFiles(std::move(*info), options.all_files);
  return info.ok() ? info : info.status().WithContext(what);
}

uint64_t SizeOr0(const fs::path& file) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

// What a pull has to do. One blob can stand for several files.
struct Work {
  std::vector<RepoFile> missing = {};
  uint64_t missing_bytes = 0;  // still to arrive
  PullProgress progress = {};
};

Work PlanWork(const RepoCache& cache, const RepoInfo& info, const std::string& name) {
  Work work;
  work.progress.model = name;
  std::set<std::string> seen;
  for (const RepoFile& file : info.files) {
    if (!seen.insert(file.hash).second) continue;
    ++work.progress.files;
    work.progress.bytes += file.size_bytes;
    if (cache.HasBlob(file)) {
      ++work.progress.files_done;
      work.progress.bytes_done += file.size_bytes;
      continue;
    }
    const uint64_t have = SizeOr0(cache.Incomplete(file));
    work.missing_bytes += have < file.size_bytes ? file.size_bytes - have : 0;
    work.missing.push_back(file);
  }
  return work;
}

Status CheckDisk(const RepoCache& cache, const Work& work) {
  std::error_code error;
  const fs::space_info space = fs::space(cache.folder(), error);
  if (error || space.available >= work.missing_bytes) return {};
  return base::ResourceExhausted(fmt::format(
      "{} needs {} bytes ({}) more, {} has {} bytes ({}) free: make room, or name another place "
      "with HF_HUB_CACHE",
      work.progress.model, work.missing_bytes, SizeText(work.missing_bytes),
      cache.folder().string(), space.available, SizeText(space.available)));
}

Result<uint64_t> Fetch(const RepoCache& cache, const RepoInfo& info, const std::string& name,
                       const HubOptions& options) {
  const Work work = PlanWork(cache, info, name);
  TW_TRY(CheckDisk(cache, work));
  if (work.missing.empty()) return uint64_t{0};
  Notice(options, fmt::format("downloading {}: {} of {} to {}; it can be stopped and continued",
                              name, SizeText(work.missing_bytes), SizeText(work.progress.bytes),
                              cache.folder().string()));
  Downloader downloader(cache, name, info.commit, options, work.progress);
  TW_TRY(downloader.Run(work.missing).WithContext(name));
  return downloader.bytes_received();
}

}  // namespace

Result<PullReport> Pull(const std::string& name, const HubOptions& options) {
  TW_TRY(CheckPull(name, options));
  const auto begin = std::chrono::steady_clock::now();
  const std::string revision =
      options.revision.empty() ? std::string(kDefaultRevision) : options.revision;
  WarnOfOpenToken(options);
  TW_ASSIGN(const RepoInfo info, AskInfo(name, revision, options));
  const RepoCache cache(options.cache, name);
  TW_TRY(cache.MakeFolders());
  const auto waiting = [&] {
    Notice(options, fmt::format("waiting for another process that downloads {}", name));
  };
  TW_ASSIGN(const RepoLock lock, RepoLock::Take(cache.lock_file(), waiting, options.interrupted));
  TW_ASSIGN(const uint64_t received, Fetch(cache, info, name, options));
  TW_TRY(cache.LinkSnapshot(info));
  TW_TRY(cache.WriteRef(revision, info.commit));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return PullReport{.folder = cache.Snapshot(info.commit),
                    .commit = info.commit,
                    .files = static_cast<int64_t>(info.files.size()),
                    .bytes = info.total_bytes,
                    .bytes_received = received,
                    .seconds = seconds};
}

}  // namespace thalweg::hub
