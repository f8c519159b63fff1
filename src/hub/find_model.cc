// FindModel: which places are looked at, in which order, and what the error says when none has it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <system_error>

#include "base/log.h"
#include "hub/cache.h"
#include "hub/hub.h"
#include "hub/names.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;

bool IsCheckpoint(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.json", error);
}

// Goes through places for one name and remembers why each was passed over.
class Search {
 public:
  Search(const std::string& name, const HubOptions& options) : name_(name), options_(options) {}

  std::optional<fs::path> InModelDir() {
    const fs::path& dir = options_.model_dir;
    if (dir.empty()) return std::nullopt;
    const std::string last = name_.substr(name_.find('/') + 1);
    const fs::path itself = (dir / "").parent_path();  // without a slash at the end
    if (itself.filename() == last && IsCheckpoint(itself)) return Folder(itself);
    if (auto found = Folder(dir / name_)) return found;
    if (last != name_) {
      if (auto found = Folder(dir / last)) return found;
    }
    return Snapshot(dir);
  }

  std::optional<fs::path> InCache() {
    if (!options_.cache.empty()) return Snapshot(options_.cache);
    Pass("the Hugging Face cache: no HF_HUB_CACHE, HF_HOME or HOME is set");
    return std::nullopt;
  }

  void Pass(std::string place) { passed_.push_back(std::move(place)); }

  Status Missing(base::Code code, std::string_view advice) const {
    return {code, fmt::format("model \"{}\"{} was not found; {}\nlooked at:\n  {}", name_,
                              options_.revision.empty() ? "" : " at " + options_.revision, advice,
                              fmt::join(passed_, "\n  "))};
  }

 private:
  // A plain folder does not say which revision it is: with one asked for, it is passed over.
  std::optional<fs::path> Folder(const fs::path& folder) {
    const bool found = IsCheckpoint(folder);
    if (found && options_.revision.empty()) return folder;
    std::error_code error;
    const bool there = fs::is_directory(folder, error);
    Pass(fmt::format("{}: {}", folder.string(),
                     found   ? "a folder has no revisions"
                     : there ? "no config.json"
                             : "not there"));
    return std::nullopt;
  }

  std::optional<fs::path> Snapshot(const fs::path& root) {
    const RepoCache cache(root, name_);
    const auto commit = cache.CommitOf(options_.revision);
    if (!commit) {
      std::error_code error;
      const bool there = fs::is_directory(cache.folder(), error);
      Pass(fmt::format("{}: {}", cache.folder().string(),
                       there ? "this revision is not in it" : "not there"));
      return std::nullopt;
    }
    const auto problem = WhyIncomplete(cache.Snapshot(*commit));
    if (!problem) return cache.Snapshot(*commit);
    Pass(fmt::format("{}: {}", cache.Snapshot(*commit).string(), *problem));
    return std::nullopt;
  }

  const std::string& name_;
  const HubOptions& options_;
  std::vector<std::string> passed_;
};

Result<fs::path> Unnamed(const HubOptions& options) {
  if (options.model_dir.empty()) return EmbeddedModel(options);
  if (IsCheckpoint(options.model_dir)) return options.model_dir;
  std::error_code error;
  if (!fs::is_directory(options.model_dir, error)) {
    return base::NotFound(fmt::format("{} (--model-dir, DEEPINFER_HF_MODEL_DIR) is not there",
                                      options.model_dir.string()));
  }
  return base::NotFound(fmt::format(
      "{} (--model-dir, DEEPINFER_HF_MODEL_DIR) has no config.json: name one of the models in it "
      "with --model, or unset it for the checkpoint that comes with the program",
      options.model_dir.string()));
}

Result<fs::path> Download(const std::string& name, const HubOptions& options, Search* search) {
  if (options.offline) {
    search->Pass("the network: offline (--offline, HF_HUB_OFFLINE)");
    return search->Missing(base::Code::kNotFound,
                           "allow the network, copy it to one of these places, or name a folder");
  }
  const Result<PullReport> report = Pull(name, options);
  if (report.ok()) return report->folder;
  // The user knows why there is no model.
  if (options.interrupted && options.interrupted()) return report.status();
  search->Pass(fmt::format("{}: {}", options.endpoint, report.status().message()));
  return search->Missing(report.status().code(), report.status().message());
}

}  // namespace

Result<fs::path> FindModel(const std::string& name, const HubOptions& options) {
  if (name.empty()) return Unnamed(options);
  if (IsCheckpoint(name) && options.revision.empty()) return fs::path(name);
  if (IsCheckpoint(name))
    return base::InvalidArgument(fmt::format(
        "{} is a folder, which has no revisions: leave out --revision {}", name, options.revision));
  std::error_code error;
  if (LooksLikePath(name) || fs::is_regular_file(name, error)) {
    return base::NotFound(fmt::format("{} is no checkpoint folder: it has no config.json", name));
  }
  TW_TRY(CheckRepoName(name));
  if (!options.revision.empty()) TW_TRY(CheckRevision(options.revision));
  Search search(name, options);
  search.Pass(fmt::format("{}: {}", fs::absolute(name, error).string(),
                          fs::exists(name, error) ? "no config.json" : "not there"));
  if (auto found = search.InModelDir()) return *found;
  if (auto found = search.InCache()) return *found;
  return Download(name, options, &search);
}

}  // namespace thalweg::hub
