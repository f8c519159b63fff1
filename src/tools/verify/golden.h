// A golden folder: a checkpoint with inputs and expected outputs, and a manifest that describes
// them. Everything here comes from outside and is checked before use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "checkpoint/safetensors.h"
#include "tensor/view.h"

namespace thalweg::tools {

// Limits of what a golden folder may ask for.
inline constexpr uint64_t kMaxManifestBytes = 64u << 20;
inline constexpr int64_t kMaxGoldenTokens = 1 << 16;  // of one prompt with its continuation
inline constexpr int64_t kAnyDimension = -1;

class GoldenFolder {
 public:
  // Reads manifest.json and golden.safetensors. Errors: either file missing or malformed; an entry
  // of the manifest that the tensor file lacks or holds with another dtype or shape.
  static Result<GoldenFolder> Open(const std::filesystem::path& dir);

  const std::filesystem::path& dir() const { return dir_; }
  // The manifest's entries that start with `prefix`, as names, in order.
  std::vector<std::string> EntriesBelow(std::string_view prefix) const;
  // The distinct next path components below `prefix` ("dump/" -> "rand17", "rand35").
  std::vector<std::string> ChildrenOf(std::string_view prefix) const;
  bool Has(std::string_view entry) const;

  // The tensor of an entry; an error when it is not described, or not of this dtype and shape.
  // kAnyDimension leaves a dimension open.
  Result<tensor::View> Get(std::string_view entry, tensor::DType dtype,
                           std::initializer_list<int64_t> dims) const;
  // A one-dimensional int32 tensor with at least one element.
  Result<std::span<const int32_t>> Integers(std::string_view entry) const;
  // The manifest's `steps` of an entry: ascending, each in [0, limit), as many as its rows.
  Result<std::vector<int64_t>> Steps(std::string_view entry, int64_t limit) const;

  // A value of the manifest by path ("limits/layer_local/router_gap"); null when there is none.
  const base::Json* Find(std::string_view path) const;
  // The same as a number; an error that names the path when it is none.
  Result<double> Number(std::string_view path) const;
  // The same as a list of integers, nested lists flattened.
  Result<std::vector<int64_t>> FlatIntegers(std::string_view path) const;

 private:
  GoldenFolder(std::filesystem::path dir, base::Json manifest, checkpoint::SafetensorsFile tensors);
  Status CheckEntries();

  std::filesystem::path dir_;
  base::Json manifest_;
  checkpoint::SafetensorsFile tensors_;
  std::vector<std::string> order_;  // entry names as the manifest lists them
};

}  // namespace thalweg::tools
