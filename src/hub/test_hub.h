// For tests: a Hub of one repository, test/model, on this machine, and a folder for caches.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "hub/hub.h"

namespace thalweg::hub {

class TestHub {
 public:
  // Starts tests/hub/hub_server.py with a small repository of a checkpoint's shape.
  TestHub();
  ~TestHub();
  TestHub(const TestHub&) = delete;
  TestHub& operator=(const TestHub&) = delete;

  const std::filesystem::path& folder() const { return folder_; }  // empty but for the server's
  const std::string& commit() const { return commit_; }
  // How the server misbehaves from now on (hub_server.py has the keys).
  void SetFaults(const std::string& json) const;
  // Every request so far, in order: path, range, cdn, authorization.
  std::vector<base::Json> Requests() const;
  std::vector<base::Json> RequestsFor(const std::string& file) const;

  // Options for this server: a cache in folder(), waits of milliseconds.
  HubOptions Options() const;
  // The bytes of a file in the repository.
  std::string Content(const std::string& file) const;
  // What is in the cache's snapshot, by the name in the repository.
  std::string Cached(const std::filesystem::path& snapshot, const std::string& file) const;
  // The files in blobs/ whose name ends so.
  std::vector<std::string> Blobs(const std::string& suffix) const;

 private:
  void StartServer();

  std::filesystem::path folder_;
  pid_t server_ = -1;
  int keep_alive_ = -1;  // the server ends with this pipe
  int port_ = 0;
  std::string commit_;
};

inline constexpr const char* kShard1 = "model-00001-of-00002.safetensors";
inline constexpr const char* kShard2 = "model-00002-of-00002.safetensors";
inline constexpr size_t kShardBytes = 300'000;

// A folder of this process alone: tests of one program run at the same time.
std::filesystem::path TestFolder(const std::string& name);
void WriteText(const std::filesystem::path& file, const std::string& text);
std::string ReadText(const std::filesystem::path& file);

}  // namespace thalweg::hub
