#include <cstring>

#include "base/log.h"
#include "checkpoint/safetensors.h"

namespace thalweg::checkpoint {

Result<SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path) {
  TW_ASSIGN(base::MappedFile file, base::MappedFile::Open(path));
  TW_ASSIGN(SafetensorsHeader header, ParseSafetensorsHeader(file.bytes(), path.string()));
  SafetensorsFile opened(std::move(file), std::move(header));
  opened.Realign();
  return opened;
}

SafetensorsFile::SafetensorsFile(base::MappedFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)) {
  by_name_.reserve(header_.entries.size());
  for (size_t i = 0; i < header_.entries.size(); ++i) by_name_[header_.entries[i].name] = i;
}

// The format does not promise alignment. Wide elements off their alignment are copied once, so that
// every view can be read as its type.
void SafetensorsFile::Realign() {
  uint64_t copied = 0;
  for (const TensorEntry& entry : header_.entries) {
    const auto align = static_cast<uint64_t>(tensor::SizeOf(entry.dtype));
    if ((header_.data_offset + entry.begin) % align == 0 || entry.begin == entry.end) continue;
    tensor::Buffer copy(static_cast<int64_t>(entry.end - entry.begin));
    std::memcpy(copy.data(), file_.bytes().data() + header_.data_offset + entry.begin,
                entry.end - entry.begin);
    copied += entry.end - entry.begin;
    realigned_.emplace(entry.begin, std::move(copy));
  }
  if (copied > 0) {
    spdlog::debug("{}: copied {} bytes of tensors that the writer did not align", path().string(),
                  copied);
  }
}

tensor::View SafetensorsFile::ViewOf(const TensorEntry& entry) const {
  const auto copy = realigned_.find(entry.begin);
  const std::byte* data = file_.bytes().data() + header_.data_offset + entry.begin;
  // An empty tensor may share its begin with a copied one; it has no bytes to point at.
  if (copy != realigned_.end() && entry.begin != entry.end) data = copy->second.data();
  return {entry.dtype, entry.shape, data};
}

std::optional<tensor::View> SafetensorsFile::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return ViewOf(header_.entries[found->second]);
}

}  // namespace thalweg::checkpoint
