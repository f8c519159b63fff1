// Fuzz target: the answer about a repository, and names, from a hostile server. What is accepted
// must stay inside the cache and within the limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "hub/limits.h"
#include "hub/names.h"
#include "hub/repo_info.h"

namespace {

void CheckSafe(std::string_view name) {
  TW_CHECK(!name.empty() && name.front() != '/' && name.size() <= thalweg::hub::kMaxFileNameBytes);
  TW_CHECK(name.find('\0') == std::string_view::npos);
  TW_CHECK(name != ".." && !name.starts_with("../") && !name.ends_with("/.."));
  TW_CHECK(name.find("/../") == std::string_view::npos);
}

void CheckInfo(const thalweg::hub::RepoInfo& info) {
  TW_CHECK(thalweg::hub::IsCommit(info.commit));
  uint64_t total = 0;
  for (const thalweg::hub::RepoFile& file : info.files) {
    CheckSafe(file.name);
    TW_CHECK(file.hash.size() == 40 || file.hash.size() == 64);
    total += file.size_bytes;
  }
  TW_CHECK_EQ(total, info.total_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto info = thalweg::hub::ParseRepoInfo(text); info.ok()) CheckInfo(*info);
  if (thalweg::hub::CheckFileName(text).ok()) CheckSafe(text);
  if (thalweg::hub::CheckRevision(text).ok()) CheckSafe(text);
  if (thalweg::hub::CheckRepoName(text).ok()) CheckSafe(text);
  return 0;
}
