// HubOptions from the environment and from resolved options.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/env.h"
#include "base/mapped_file.h"
#include "hub/hub.h"
#include "hub/limits.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEndpoint = "https://huggingface.co";

// A path from the environment. "~/" is the home folder, which a shell expands only where it is
// bare.
fs::path PathFrom(const char* variable) {
  const std::string value = base::ReadEnvironment(variable).value_or("");
  if (!value.starts_with("~/")) return value;
  return fs::path(base::ReadEnvironment("HOME").value_or("")) / value.substr(2);
}

// $HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. Empty: there is no home.
fs::path HubHome() {
  if (const fs::path home = PathFrom("HF_HOME"); !home.empty()) return home;
  if (const fs::path cache = PathFrom("XDG_CACHE_HOME"); !cache.empty())
    return cache / "huggingface";
  const fs::path home = PathFrom("HOME");
  return home.empty() ? home : home / ".cache/huggingface";
}

bool IsTrue(const char* variable) {
  std::string value = base::ReadEnvironment(variable).value_or("");
  for (char& c : value) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

bool IsGraph(char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; }

// An address without anything that could end a request line.
Result<std::string> CheckEndpoint(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool web = endpoint.starts_with("https://") || endpoint.starts_with("http://");
  if (!web || endpoint.size() > kMaxEndpointBytes ||
      !std::all_of(endpoint.begin(), endpoint.end(), IsGraph))
    return base::InvalidArgument(
        fmt::format("HF_ENDPOINT must be an address such as {}", kEndpoint));
  return endpoint;
}

// Whitespace around a token is no part of it; within, it could forge a header.
Result<std::string> CheckToken(std::string token, std::string_view origin) {
  const auto begin = std::find_if(token.begin(), token.end(), IsGraph);
  token.erase(token.begin(), begin);
  while (!token.empty() && !IsGraph(token.back())) token.pop_back();
  if (token.size() <= kMaxTokenBytes && std::all_of(token.begin(), token.end(), IsGraph))
    return token;
  return base::InvalidArgument(fmt::format("{} is no token: one word is expected", origin));
}

// HF_TOKEN, else the file where `hf auth login` puts it.
Result<std::string> FindToken(const fs::path& home) {
  if (const auto token = base::ReadEnvironment("HF_TOKEN")) return CheckToken(*token, "HF_TOKEN");
  fs::path file = PathFrom("HF_TOKEN_PATH");
  if (file.empty() && !home.empty()) file = home / "token";
  std::error_code error;
  if (file.empty() || !fs::exists(file, error)) return std::string();
  return ReadTokenFile(file);
}

}  // namespace

Result<std::string> ReadTokenFile(const fs::path& file) {
  TW_ASSIGN(std::string token, base::ReadFile(file, kMaxTokenBytes));
  return CheckToken(std::move(token), file.string());
}

Result<HubOptions> HubOptions::FromEnvironment() {
  HubOptions options;
  const fs::path home = HubHome();
  options.offline = IsTrue("HF_HUB_OFFLINE");
  options.model_dir = PathFrom("DEEPINFER_HF_MODEL_DIR");
  options.nano_dir = PathFrom("THALWEG_NANO_DIR");
  options.cache = PathFrom("HF_HUB_CACHE");
  if (options.cache.empty() && !home.empty()) options.cache = home / "hub";
  TW_ASSIGN(options.endpoint,
            CheckEndpoint(base::ReadEnvironment("HF_ENDPOINT").value_or(kEndpoint)));
  TW_ASSIGN(options.token, FindToken(home));
  return options;
}

std::vector<base::OptionRow> HubOptions::Rows() {
  using base::OptionKind;
  return {
      {.name = "model",
       .help = "folder of a checkpoint, or a Hugging Face name (org/name), which is looked for in "
               "--model-dir and the Hugging Face cache, else downloaded; without it the small "
               "checkpoint that comes with the program",
       .value_name = "MODEL"},
      {.name = "model-dir",
       .help = "checkpoint, or folder of checkpoints that is looked at first",
       .environment = "DEEPINFER_HF_MODEL_DIR",
       .value_name = "DIR"},
      {.name = "revision", .help = "branch, tag or commit of a Hugging Face name; default main"},
      {.name = "offline",
       .kind = OptionKind::kFlag,
       .help = "never use the network [environment: HF_HUB_OFFLINE]"},
  };
}

Result<HubOptions> HubOptions::From(const base::OptionValues& values) {
  TW_ASSIGN(HubOptions options, FromEnvironment());
  options.revision = values.Text("revision");
  if (values.Has("model-dir")) options.model_dir = values.Text("model-dir");
  if (values.Has("offline")) options.offline = values.Flag("offline");
  return options;
}

}  // namespace thalweg::hub
