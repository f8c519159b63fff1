#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/log.h"
#include "checkpoint/engram_tables.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_index.h"

namespace thalweg::checkpoint {
namespace {

// Lets a string_view look up a string key without a copy.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};
using ViewMap = std::unordered_map<std::string, tensor::View, NameHash, std::equal_to<>>;

}  // namespace

struct Checkpoint::State {
  Config config;
  LoadFilter filter;
  std::filesystem::path dir;
  ShardIndex index;
  std::vector<std::optional<SafetensorsFile>> files;  // as index.files; unset: not needed
  ViewMap views;
  std::array<CategoryTotal, kCategories> totals = {};

  Status OpenShards(const std::vector<ExpectedTensor>& expected);
  Status OpenShard(size_t file, ProblemList& problems);
  Status TakeTensors(const std::vector<ExpectedTensor>& expected);
  void Take(const ExpectedTensor& tensor, ProblemList& problems);
  void FindExtra(const std::vector<ExpectedTensor>& expected, ProblemList& problems) const;
  void FindStrays(const std::unordered_set<std::string_view>& names, size_t file,
                  ProblemList& problems) const;
};

bool LoadFilter::Wants(const ExpectedTensor& tensor) const {
  if (tensor.draft && !draft) return false;
  if (tensor.category == Category::kEngram && !engram) return false;
  if (tensor.category == Category::kVision && !vision) return false;
  if (tensor.expert < 0) return true;
  return tensor.draft ? tensor.expert >= draft_expert_begin && tensor.expert < draft_expert_end
                      : tensor.expert >= expert_begin && tensor.expert < expert_end;
}

// Opens the shards that hold something wanted.
Status Checkpoint::State::OpenShards(const std::vector<ExpectedTensor>& expected) {
  files.resize(index.files.size());
  std::vector<bool> needed(files.size(), false);
  for (const ExpectedTensor& tensor : expected) {
    const auto place = index.file_of.find(tensor.name);
    if (place != index.file_of.end() && filter.Wants(tensor)) needed[place->second] = true;
  }
  ProblemList missing;
  for (size_t i = 0; i < files.size(); ++i) {
    if (needed[i]) TW_TRY(OpenShard(i, missing));
  }
  return missing.ToStatus(
      fmt::format("shards named by the index are missing from {}", dir.string()));
}

// A missing shard joins the list, so that an unfinished download is reported whole.
Status Checkpoint::State::OpenShard(size_t file, ProblemList& problems) {
  Result<SafetensorsFile> opened = SafetensorsFile::Open(dir / index.files[file]);
  if (opened.ok()) {
    files[file] = std::move(opened).value();
    return {};
  }
  if (opened.status().code() != base::Code::kNotFound) return opened.status();
  problems.Add(index.files[file]);
  return {};
}

void Checkpoint::State::Take(const ExpectedTensor& tensor, ProblemList& problems) {
  const auto place = index.file_of.find(tensor.name);
  if (place == index.file_of.end()) {
    return problems.Add(fmt::format("{} is missing from the index", tensor.name));
  }
  const std::optional<tensor::View> view = files[place->second]->Find(tensor.name);
  if (!view) {
    return problems.Add(fmt::format("{} is missing from {}, where the index places it", tensor.name,
                                    index.files[place->second]));
  }
  if (!tensor.Allows(view->dtype) || !(view->shape == tensor.shape)) {
    return problems.Add(fmt::format(
        "{} is {} {}, expected {} {}", tensor.name, tensor::SafetensorsName(view->dtype),
        view->shape.ToString(), tensor::SafetensorsName(tensor.dtype), tensor.shape.ToString()));
  }
  CategoryTotal& total = totals[static_cast<size_t>(tensor.category)];
  total.category = tensor.category;
  ++total.tensors;
  total.bytes += view->bytes();
  views.emplace(tensor.name, *view);
}

// Tensors of an opened shard that the index does not place there.
void Checkpoint::State::FindStrays(const std::unordered_set<std::string_view>& names, size_t file,
                                   ProblemList& problems) const {
  for (const TensorEntry& entry : files[file]->entries()) {
    const auto place = index.file_of.find(entry.name);
    if (place != index.file_of.end() && place->second == file) continue;
    problems.Add(names.contains(entry.name)
                     ? fmt::format("{} is also in {}, where the index does not place it",
                                   entry.name, index.files[file])
                     : fmt::format("{} in {} is not a tensor of this config", entry.name,
                                   index.files[file]));
  }
}

void Checkpoint::State::FindExtra(const std::vector<ExpectedTensor>& expected,
                                  ProblemList& problems) const {
  std::unordered_set<std::string_view> names;
  names.reserve(expected.size());
  for (const ExpectedTensor& tensor : expected) names.insert(tensor.name);
  std::vector<std::string_view> extra;
  for (const auto& [name, file] : index.file_of) {
    if (!names.contains(name)) extra.push_back(name);
  }
  std::ranges::sort(extra);
  for (const std::string_view name : extra) {
    problems.Add(fmt::format("{} is not a tensor of this config", name));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i]) FindStrays(names, i, problems);
  }
}

Status Checkpoint::State::TakeTensors(const std::vector<ExpectedTensor>& expected) {
  ProblemList problems;
  views.reserve(expected.size());
  for (const ExpectedTensor& tensor : expected) {
    if (filter.Wants(tensor)) Take(tensor, problems);
  }
  FindExtra(expected, problems);
  return problems.ToStatus("tensors are missing, extra or of another dtype or shape")
      .WithContext(dir.string());
}

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& dir, const LoadFilter& filter) {
  if (filter.expert_begin > filter.expert_end ||
      filter.draft_expert_begin > filter.draft_expert_end) {
    return base::InvalidArgument("an expert range must not end before it begins");
  }
  auto state = std::make_unique<State>();
  state->dir = dir;
  state->filter = filter;
  TW_ASSIGN(state->config, Config::Load(dir / "config.json"));
  TW_TRY(BuildEngramTables(state->config).status().WithContext((dir / "config.json").string()));
  TW_ASSIGN(state->index, LoadShardIndex(dir));
  const std::vector<ExpectedTensor> expected = ExpectedTensors(state->config);
  TW_TRY(state->OpenShards(expected));
  TW_TRY(state->TakeTensors(expected));
  return Checkpoint(std::move(state));
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const Config& Checkpoint::config() const { return state_->config; }
const LoadFilter& Checkpoint::filter() const { return state_->filter; }
const std::filesystem::path& Checkpoint::dir() const { return state_->dir; }

std::optional<tensor::View> Checkpoint::Find(std::string_view name) const {
  const auto found = state_->views.find(name);
  if (found == state_->views.end()) return std::nullopt;
  return found->second;
}

tensor::View Checkpoint::Get(std::string_view name) const {
  const std::optional<tensor::View> view = Find(name);
  if (!view) base::CheckFailed(__FILE__, __LINE__, "a tensor that was loaded", name);
  return *view;
}

void Checkpoint::GiveBackPages() const {
  for (const std::optional<SafetensorsFile>& file : state_->files) {
    if (file) file->GiveBackPages();
  }
}

int64_t Checkpoint::tensor_count() const { return static_cast<int64_t>(state_->views.size()); }

int64_t Checkpoint::total_bytes() const {
  int64_t bytes = 0;
  for (const CategoryTotal& total : state_->totals) bytes += total.bytes;
  return bytes;
}

std::vector<CategoryTotal> Checkpoint::inventory() const {
  std::vector<CategoryTotal> totals(state_->totals.begin(), state_->totals.end());
  std::erase_if(totals, [](const CategoryTotal& total) { return total.tensors == 0; });
  return totals;
}

}  // namespace thalweg::checkpoint
