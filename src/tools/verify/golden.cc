#include "tools/verify/golden.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mapped_file.h"

namespace thalweg::tools {
namespace {

using base::Json;

bool ShapeIs(const tensor::Shape& shape, const Json& dims) {
  if (!dims.is_array() || dims.size() != static_cast<size_t>(shape.rank())) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    const Json& dim = dims[static_cast<size_t>(i)];
    if (!dim.is_number_integer() || dim.get<int64_t>() != shape[i]) return false;
  }
  return true;
}

bool ShapeIs(const tensor::Shape& shape, std::initializer_list<int64_t> dims) {
  if (shape.rank() != static_cast<int>(dims.size())) return false;
  int i = 0;
  for (const int64_t dim : dims) {
    if (dim != kAnyDimension && dim != shape[i]) return false;
    ++i;
  }
  return true;
}

std::string ShapeText(std::initializer_list<int64_t> dims) {
  std::string text;
  for (const int64_t dim : dims) {
    text += text.empty() ? "" : ", ";
    text += dim == kAnyDimension ? "any" : fmt::format("{}", dim);
  }
  return fmt::format("[{}]", text);
}

Status Flatten(const Json& json, std::vector<int64_t>* out) {
  if (json.is_number_integer()) {
    out->push_back(json.get<int64_t>());
    return {};
  }
  if (!json.is_array()) return base::InvalidArgument("not a list of integers");
  for (const Json& item : json) TW_TRY(Flatten(item, out));
  return {};
}

Status CheckSteps(std::span<const int64_t> steps, int64_t limit) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool ascending = i == 0 || steps[i] > steps[i - 1];
    if (!ascending || steps[i] < 0 || steps[i] >= limit)
      return base::InvalidArgument(fmt::format("step {} is out of order or range", steps[i]));
  }
  return {};
}

}  // namespace

GoldenFolder::GoldenFolder(std::filesystem::path dir, Json manifest,
                           checkpoint::SafetensorsFile tensors)
    : dir_(std::move(dir)), manifest_(std::move(manifest)), tensors_(std::move(tensors)) {}

Result<GoldenFolder> GoldenFolder::Open(const std::filesystem::path& dir) {
  const auto path = dir / "manifest.json";
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxManifestBytes));
  TW_ASSIGN(Json manifest, base::ParseJson(text, path.string()));
  TW_ASSIGN(auto tensors, checkpoint::SafetensorsFile::Open(dir / "golden.safetensors"));
  GoldenFolder folder(dir, std::move(manifest), std::move(tensors));
  TW_TRY(folder.CheckEntries().WithContext(path.string()));
  return folder;
}

Status GoldenFolder::CheckEntries() {
  const Json* entries = Find("entries");
  if (entries == nullptr || !entries->is_object())
    return base::InvalidArgument(
        "no object \"entries\": this is not the manifest of a golden folder");
  for (const auto& [name, entry] : entries->items()) {
    const auto view = tensors_.Find(name);
    if (!view) return base::NotFound(fmt::format("entry {} is not in golden.safetensors", name));
    const bool described = entry.is_object() && entry.contains("dtype") && entry.contains("shape");
    if (!described || entry["dtype"] != tensor::SafetensorsName(view->dtype) ||
        !ShapeIs(view->shape, entry["shape"])) {
      return base::InvalidArgument(
          fmt::format("entry {} is described otherwise than golden.safetensors holds it ({} {})",
                      name, tensor::SafetensorsName(view->dtype), view->shape.ToString()));
    }
    order_.push_back(name);
  }
  return {};
}

std::vector<std::string> GoldenFolder::EntriesBelow(std::string_view prefix) const {
  std::vector<std::string> out;
  for (const std::string& name : order_) {
    if (name.starts_with(prefix)) out.push_back(name);
  }
  return out;
}

std::vector<std::string> GoldenFolder::ChildrenOf(std::string_view prefix) const {
  std::vector<std::string> out;
  for (const std::string& name : EntriesBelow(prefix)) {
    std::string child = name.substr(prefix.size(), name.find('/', prefix.size()) - prefix.size());
    if (std::find(out.begin(), out.end(), child) == out.end()) out.push_back(std::move(child));
  }
  return out;
}

bool GoldenFolder::Has(std::string_view entry) const {
  const Json* entries = Find("entries");
  return entries->contains(entry);
}

Result<tensor::View> GoldenFolder::Get(std::string_view entry, tensor::DType dtype,
                                       std::initializer_list<int64_t> dims) const {
  if (!Has(entry)) return base::NotFound(fmt::format("the golden folder has no entry {}", entry));
  const tensor::View view = *tensors_.Find(entry);
  if (view.dtype == dtype && ShapeIs(view.shape, dims)) return view;
  return base::InvalidArgument(fmt::format(
      "golden entry {} is {} {}, expected {} {}", entry, tensor::SafetensorsName(view.dtype),
      view.shape.ToString(), tensor::SafetensorsName(dtype), ShapeText(dims)));
}

Result<std::span<const int32_t>> GoldenFolder::Integers(std::string_view entry) const {
  TW_ASSIGN(const tensor::View view, Get(entry, tensor::DType::kI32, {kAnyDimension}));
  const auto count = static_cast<size_t>(view.shape[0]);
  if (count == 0) return base::InvalidArgument(fmt::format("golden entry {} is empty", entry));
  return std::span<const int32_t>(view.as<int32_t>(), count);
}

Result<std::vector<int64_t>> GoldenFolder::Steps(std::string_view entry, int64_t limit) const {
  const Json* entries = Find("entries");
  const Json& described = (*entries)[std::string(entry)];
  std::vector<int64_t> steps;
  if (!described.contains("steps"))
    return base::InvalidArgument(fmt::format("golden entry {} names no steps", entry));
  TW_TRY(Flatten(described["steps"], &steps).WithContext(entry));
  TW_TRY(CheckSteps(steps, limit).WithContext(entry));
  if (static_cast<int64_t>(steps.size()) != tensors_.Find(entry)->shape[0])
    return base::InvalidArgument(fmt::format("golden entry {} has not one row per step", entry));
  return steps;
}

const Json* GoldenFolder::Find(std::string_view path) const {
  const Json* at = &manifest_;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view key = path.substr(0, slash);
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[std::string(key)];
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return at;
}

Result<double> GoldenFolder::Number(std::string_view path) const {
  const Json* value = Find(path);
  if (value == nullptr || !value->is_number())
    return base::InvalidArgument(fmt::format("manifest.json has no number {}", path));
  return value->get<double>();
}

Result<std::vector<int64_t>> GoldenFolder::FlatIntegers(std::string_view path) const {
  const Json* value = Find(path);
  if (value == nullptr)
    return base::InvalidArgument(fmt::format("manifest.json has no list {}", path));
  std::vector<int64_t> out;
  TW_TRY(Flatten(*value, &out).WithContext(path));
  return out;
}

}  // namespace thalweg::tools
