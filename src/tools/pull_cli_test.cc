// `thalweg pull` as a shell sees it: the folder on stdout, one message for an error, and a Ctrl-C
// that leaves what has arrived, says so, and ends with the code of its signal.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "base/sha256.h"
#include "hub/test_hub.h"

namespace thalweg::tools {
namespace {

using hub::kShard1;
using hub::TestHub;

struct Outcome {
  int code = -1;
  std::string text;
};

Outcome RunShell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.text.append(buffer.data(), n);
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

// The program against the test's Hub; `arguments` may redirect.
std::string PullCommandLine(const TestHub& hub, const std::string& arguments) {
  return "HF_ENDPOINT=" + hub.Options().endpoint +
         " HF_TOKEN= HF_HUB_OFFLINE= HF_HUB_CACHE=" + hub.Options().cache.string() +
         " " THALWEG_PROGRAM " pull " + arguments;
}

Outcome RunPull(const TestHub& hub, const std::string& arguments) {
  return RunShell(PullCommandLine(hub, arguments));
}

// Interrupts the program as soon as it has put bytes of `file` on disk.
Outcome InterruptPull(const TestHub& hub, const std::string& file) {
  const std::string hash = base::HexOf(base::Sha256Of(hub.Content(file)));
  const std::string part =
      (hub.Options().cache / "models--test--model/blobs" / (hash + ".incomplete")).string();
  return RunShell(PullCommandLine(hub, "test/model 2>&1") + " & p=$!; i=0; while [ ! -s " + part +
                  " ] && [ $i -lt 2000 ]; do sleep 0.01; i=$((i+1)); done; kill -INT $p; wait $p");
}

std::string SnapshotOf(const TestHub& hub) {
  return (hub.Options().cache / "models--test--model/snapshots" / hub.commit()).string();
}

TEST(PullCommand, PrintsTheFolderAloneOnStandardOutput) {
  const TestHub hub;
  const Outcome outcome = RunPull(hub, "test/model 2>/dev/null");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.text, SnapshotOf(hub) + "\n");
  EXPECT_EQ(RunPull(hub, "test/model --offline").text, SnapshotOf(hub) + "\n");
}

TEST(PullCommand, JsonSaysWhatCame) {
  const TestHub hub;
  const Outcome outcome = RunPull(hub, "test/model --json --all-files --jobs 2 2>/dev/null");
  EXPECT_EQ(outcome.code, 0);
  const base::Json json = base::Json::parse(outcome.text);
  EXPECT_EQ(json["commit"], hub.commit());
  EXPECT_EQ(json["folder"], SnapshotOf(hub));
  EXPECT_EQ(json["files"], 9);
  EXPECT_EQ(json["bytes"], json["received_bytes"]);
}

TEST(PullCommand, ErrorsAreOneMessageAndCodeTwo) {
  const TestHub hub;
  const Outcome outcome = RunPull(hub, "test/other 2>&1 >/dev/null");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.text.find("thalweg: not found: test/other"), std::string::npos) << outcome.text;
}

TEST(PullCommand, CtrlCKeepsWhatHasArrivedAndSaysSo) {
  const TestHub hub;
  hub.SetFaults("{\"slow\": {\"" + std::string(kShard1) + "\": 200}}");
  const Outcome cut = InterruptPull(hub, kShard1);
  EXPECT_EQ(cut.code, 128 + 2) << cut.text;
  EXPECT_NE(cut.text.find("bytes are kept, repeat to continue"), std::string::npos) << cut.text;
  EXPECT_FALSE(std::filesystem::exists(SnapshotOf(hub)));
  hub.SetFaults("{}");
  EXPECT_EQ(RunPull(hub, "test/model 2>/dev/null").text, SnapshotOf(hub) + "\n");
  EXPECT_FALSE(hub.RequestsFor(kShard1).back()["range"].is_null());
}

}  // namespace
}  // namespace thalweg::tools
