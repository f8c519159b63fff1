// `thalweg pull` as a shell sees it: the folder on stdout, one message for an error, and a Ctrl-C
// that leaves what has arrived, says so, and ends with the code of its signal.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/sha256.h"
#include "hub/test_hub.h"
#include "tools/test_shell.h"

namespace thalweg::tools {
namespace {

using hub::kShard1;
using hub::TestHub;

// The program against the test's Hub; `arguments` may redirect.
std::string CommandLine(const TestHub& hub, const std::string& arguments) {
  return "HF_ENDPOINT=" + hub.Options().endpoint +
         " HF_TOKEN= HF_HUB_OFFLINE= HF_HUB_CACHE=" + hub.Options().cache.string() +
         " " THALWEG_PROGRAM " " + arguments;
}

Outcome RunPull(const TestHub& hub, const std::string& arguments) {
  return RunShell(CommandLine(hub, "pull " + arguments));
}

// Interrupts the program as soon as it has put bytes of `file` on disk.
Outcome InterruptProgram(const TestHub& hub, const std::string& arguments,
                         const std::string& file) {
  const std::string hash = base::HexOf(base::Sha256Of(hub.Content(file)));
  const std::string part =
      (hub.Options().cache / "models--test--model/blobs" / (hash + ".incomplete")).string();
  return RunShell(CommandLine(hub, arguments + " 2>&1") + " & p=$!; i=0; while [ ! -s " + part +
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

// Commands that download on their way to a model end like pull.
TEST(PullCommand, CtrlCEndsADownloadOfOtherCommands) {
  const TestHub hub;
  const std::string results =
      std::filesystem::temp_directory_path() / ("thalweg_cut_results" + std::to_string(::getpid()));
  for (const std::string& command :
       {std::string("run --model test/model x"), "batch --model test/model /dev/null " + results}) {
    hub.SetFaults("{\"slow\": {\"" + std::string(kShard1) + "\": 200}}");
    const Outcome cut = InterruptProgram(hub, command, kShard1);
    EXPECT_EQ(cut.code, 128 + 2) << cut.text;
    EXPECT_NE(cut.text.find("stopped by Ctrl-C: test/model: interrupted"), std::string::npos)
        << cut.text;
    std::filesystem::remove_all(hub.Options().cache / "models--test--model");
  }
  std::filesystem::remove(results);
}

TEST(PullCommand, CtrlCKeepsWhatHasArrivedAndSaysSo) {
  const TestHub hub;
  hub.SetFaults("{\"slow\": {\"" + std::string(kShard1) + "\": 200}}");
  const Outcome cut = InterruptProgram(hub, "pull test/model", kShard1);
  EXPECT_EQ(cut.code, 128 + 2) << cut.text;
  EXPECT_NE(cut.text.find("bytes are kept, repeat to continue"), std::string::npos) << cut.text;
  EXPECT_FALSE(std::filesystem::exists(SnapshotOf(hub)));
  hub.SetFaults("{}");
  EXPECT_EQ(RunPull(hub, "test/model 2>/dev/null").text, SnapshotOf(hub) + "\n");
  EXPECT_FALSE(hub.RequestsFor(kShard1).back()["range"].is_null());
}

}  // namespace
}  // namespace thalweg::tools
