#include "hub/test_hub.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;

std::atomic<int> folders_made = 0;

std::string Noise(uint64_t seed, size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    text += static_cast<char>(seed >> 56);
  }
  return text;
}

void MakeRepository(const fs::path& repo) {
  fs::create_directories(repo / "extra");
  WriteText(repo / "config.json", R"({"model_type": "deepseek_v41"})");
  WriteText(repo / "tokenizer.json", "{\"vocab\": \"" + std::string(5000, 'v') + "\"}");
  WriteText(repo / "generation_config.json", "{}");
  WriteText(repo / "LICENSE", "a licence");
  WriteText(repo / "pytorch_model.bin", "not for us");
  WriteText(repo / "extra/notes #1.txt", "a name that must be encoded");
  WriteText(repo / kShard1, Noise(1, kShardBytes));
  WriteText(repo / kShard2, Noise(2, kShardBytes));
  WriteText(repo / "model.safetensors.index.json",
            std::string(R"({"weight_map": {"a": ")") + kShard1 + R"(", "b": ")" + kShard2 + "\"}}");
}

std::string ReadLine(int descriptor) {
  std::string line;
  char c = 0;
  while (read(descriptor, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

}  // namespace

fs::path TestFolder(const std::string& name) {
  return fs::path(testing::TempDir()) / ("thalweg_" + name + "_" + std::to_string(getpid()));
}

void WriteText(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::string ReadText(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

TestHub::TestHub() : folder_(TestFolder("hub_" + std::to_string(++folders_made))) {
  setenv("no_proxy", "127.0.0.1", 1);  // whatever the machine goes through to the world
  fs::remove_all(folder_);
  MakeRepository(folder_ / "repo");
  StartServer();
}

TestHub::~TestHub() {
  close(keep_alive_);
  waitpid(server_, nullptr, 0);
  fs::remove_all(folder_);
}

void TestHub::StartServer() {
  std::array<int, 2> to = {}, from = {};
  TW_CHECK_EQ(pipe2(to.data(), O_CLOEXEC), 0);
  TW_CHECK_EQ(pipe2(from.data(), O_CLOEXEC), 0);
  const std::string script = std::string(THALWEG_SOURCE_DIR) + "/tests/hub/hub_server.py";
  const std::string repo = (folder_ / "repo").string();
  server_ = fork();
  TW_CHECK(server_ >= 0);
  if (server_ == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execlp("python3", "python3", "-S", "-E", script.c_str(), repo.c_str(), nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  keep_alive_ = to[1];
  std::istringstream line(ReadLine(from[0]));
  close(from[0]);
  line >> port_ >> commit_;
  TW_CHECK(port_ > 0);
}

void TestHub::SetFaults(const std::string& json) const {
  WriteText(folder_ / "faults.tmp", json);
  fs::rename(folder_ / "faults.tmp", folder_ / "faults.json");
}

std::vector<base::Json> TestHub::Requests() const {
  std::vector<base::Json> requests;
  std::istringstream log(ReadText(folder_ / "requests.log"));
  for (std::string line; std::getline(log, line);) requests.push_back(base::Json::parse(line));
  return requests;
}

std::vector<base::Json> TestHub::RequestsFor(const std::string& file) const {
  std::vector<base::Json> requests = Requests();
  std::erase_if(requests, [&](const base::Json& request) {
    return request["path"].get<std::string>().find("/" + file) == std::string::npos;
  });
  return requests;
}

HubOptions TestHub::Options() const {
  HubOptions options;
  options.endpoint = "http://127.0.0.1:" + std::to_string(port_);
  options.cache = folder_ / "cache";
  options.retry = {.attempts = 3, .first_wait_ms = 5, .longest_wait_ms = 20};
  options.notice = [](std::string_view) {};
  return options;
}

std::string TestHub::Content(const std::string& file) const {
  return ReadText(folder_ / "repo" / file);
}

std::string TestHub::Cached(const fs::path& snapshot, const std::string& file) const {
  return ReadText(snapshot / file);
}

std::vector<std::string> TestHub::Blobs(const std::string& suffix) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(folder_ / "cache/models--test--model/blobs", error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(suffix)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace thalweg::hub
