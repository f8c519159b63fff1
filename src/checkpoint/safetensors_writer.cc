#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace thalweg::checkpoint {
namespace {

using base::Json;

// Length field and JSON, padded with spaces so that the data begins at a multiple of 8.
std::string HeaderText(std::span<const TensorSpec> tensors, uint64_t& data_bytes) {
  Json root;
  root["__metadata__"] = {{"format", "pt"}};
  auto& members = root.get_ref<Json::object_t&>();
  std::unordered_set<std::string_view> names;
  data_bytes = 0;
  for (const TensorSpec& spec : tensors) {
    TW_CHECK(names.insert(spec.name).second);
    const uint64_t begin = data_bytes;
    data_bytes += static_cast<uint64_t>(spec.shape.elements() * tensor::SizeOf(spec.dtype));
    // emplace_back of the underlying list: uniqueness is known, and a search would be quadratic.
    members.Json::object_t::Container::emplace_back(
        spec.name, Json{{"dtype", tensor::SafetensorsName(spec.dtype)},
                        {"shape", spec.shape.dims()},
                        {"data_offsets", {begin, data_bytes}}});
  }
  std::string text = root.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

Status WriteError(const std::filesystem::path& path) {
  return base::IoError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::filesystem::path temporary,
                                     uint64_t data_bytes)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      out_(temporary_, std::ios::binary | std::ios::trunc),
      remaining_bytes_(data_bytes) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (temporary_.empty()) return;
  out_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

Result<SafetensorsWriter> SafetensorsWriter::Begin(const std::filesystem::path& path,
                                                   std::span<const TensorSpec> tensors) {
  uint64_t data_bytes = 0;
  const std::string header = HeaderText(tensors, data_bytes);
  SafetensorsWriter writer(path, path.string() + fmt::format(".{}.tmp", getpid()), data_bytes);
  writer.out_.write(header.data(), static_cast<std::streamsize>(header.size()));
  if (!writer.out_) return WriteError(path);
  return writer;
}

Status SafetensorsWriter::Append(std::span<const std::byte> bytes) {
  TW_CHECK_LE(bytes.size(), remaining_bytes_);
  out_.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!out_) return WriteError(path_);
  remaining_bytes_ -= bytes.size();
  return {};
}

Status SafetensorsWriter::Finish() {
  TW_CHECK_EQ(remaining_bytes_, uint64_t{0});
  out_.close();
  if (!out_) return WriteError(path_);
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) {
    return base::IoError(fmt::format("cannot rename to {}: {}", path_.string(), error.message()));
  }
  temporary_.clear();
  return {};
}

Status WriteSafetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  std::vector<NamedTensor> sorted(tensors.begin(), tensors.end());
  std::ranges::stable_sort(sorted, [](const NamedTensor& a, const NamedTensor& b) {
    return tensor::SizeOf(a.view.dtype) > tensor::SizeOf(b.view.dtype);
  });
  std::vector<TensorSpec> specs;
  for (const NamedTensor& t : sorted) specs.push_back({t.name, t.view.dtype, t.view.shape});
  TW_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Begin(path, specs));
  for (const NamedTensor& t : sorted) {
    TW_TRY(writer.Append({t.view.data, static_cast<size_t>(t.view.bytes())}));
  }
  return writer.Finish();
}

}  // namespace thalweg::checkpoint
