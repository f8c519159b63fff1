// Where models come from: a folder, the shelf of DEEPINFER_HF_MODEL_DIR, the Hugging Face cache, or
// a download into that cache (docs/models.md). The layout of the cache and the names of its files
// are those of the Hub's own client, so that both share one copy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace thalweg::hub {

// How far a download is. Bytes count what earlier runs left behind, too.
struct PullProgress {
  std::string model;
  int64_t files_done = 0, files = 0;
  uint64_t bytes_done = 0, bytes = 0;
  uint64_t bytes_received = 0;  // over the network, by this run
  double seconds = 0;           // since the first request for a file
};

// What happens when a server cuts a connection, answers 429 or 5xx. Waits double from the first to
// the longest; Retry-After is honoured up to longest_retry_after_ms.
struct RetryPolicy {
  int attempts = 6;  // in a row without one new byte
  int64_t first_wait_ms = 1'000;
  int64_t longest_wait_ms = 60'000;
  int64_t longest_retry_after_ms = 300'000;
  int64_t stall_seconds = 60;  // a transfer without a byte for so long counts as cut
};

struct HubOptions {
  std::string revision = {};             // branch, tag or commit; empty: main
  bool offline = false;                  // never use the network
  std::filesystem::path model_dir = {};  // looked at before the cache; empty: none
  std::filesystem::path cache = {};      // of the Hub's client: models--org--name/...
  std::string endpoint = {};             // https://huggingface.co
  std::string token = {};                // sent to the endpoint's host alone; empty: none
  std::filesystem::path nano_dir = {};   // of the embedded model; empty: searched near the code
  int jobs = 8;                          // files transferred at a time
  bool all_files = false;                // else those that the engine reads, licence and README
  RetryPolicy retry = {};

  std::function<void(const PullProgress&)> progress = {};  // several times a second
  std::function<void(std::string_view)> notice = {};       // a sentence for the user; else the log
  std::function<bool()> interrupted = {};                  // true: stop soon, keep what there is

  // DEEPINFER_HF_MODEL_DIR, HF_HUB_OFFLINE, HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_ENDPOINT,
  // HF_TOKEN, HF_TOKEN_PATH, THALWEG_NANO_DIR; a value that cannot be used is an error.
  static Result<HubOptions> FromEnvironment();
  // The options `model`, `model-dir`, `revision`, `offline` as rows.
  static std::vector<base::OptionRow> Rows();
  // FromEnvironment, then what `values` has of Rows().
  static Result<HubOptions> From(const base::OptionValues& values);
};

// The token in a file: one word; blanks around it do not matter.
Result<std::string> ReadTokenFile(const std::filesystem::path& file);

// The folder of a checkpoint. `name` is a folder, a Hugging Face name ("org/name"), or empty: then
// model_dir if that is a checkpoint, else the embedded model. A name is looked for in model_dir,
// in the cache, and downloaded; a complete snapshot in the cache is used without asking the network
// whether there is a newer one. kNotFound lists every place that was looked at.
Result<std::filesystem::path> FindModel(const std::string& name, const HubOptions& options);

// models/nano: options.nano_dir, else near the program or the shared object that holds this code
// (in a folder above: models/nano or share/thalweg/models/nano).
Result<std::filesystem::path> EmbeddedModel(const HubOptions& options);

struct PullReport {
  std::filesystem::path folder;  // the snapshot
  std::string commit;
  int64_t files = 0;
  uint64_t bytes = 0;           // of all files
  uint64_t bytes_received = 0;  // over the network
  double seconds = 0;
};

// Brings a Hugging Face repository into the cache, at the commit that the revision means now. Files
// that are there are kept, broken transfers continued. Errors: kInvalidArgument (name, revision, an
// answer that makes no sense), kNotFound, kFailedPrecondition (no access, offline, interrupted),
// kResourceExhausted (disk, 429), kIo.
Result<PullReport> Pull(const std::string& name, const HubOptions& options);

// "org/name  43% of 475.1 GiB, 60 of 163 files, 88.0 MB/s, 51m07s left"
std::string ProgressLine(const PullProgress& progress);
// For HubOptions::progress: one line on stderr with rate and time left, rewritten in place; null
// when stderr is no terminal.
std::function<void(const PullProgress&)> TerminalProgress();

}  // namespace thalweg::hub
