// safetensors files: a header of names, dtypes, shapes and offsets that is checked before anything
// is used, then the bytes, memory-mapped. And the writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/view.h"

namespace thalweg::checkpoint {

// One tensor of a header; bytes are [begin, end) behind the header.
struct TensorEntry {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// What a header says once every rule holds: the length fits the file, JSON without duplicate keys,
// known dtypes, shape product times element size equal to the byte range, ranges that cover the
// data exactly once. Entries are ordered by `begin`.
struct SafetensorsHeader {
  uint64_t data_offset = 0;  // first byte behind the header
  std::vector<TensorEntry> entries;
};

// Parses and checks the header of a whole file given as bytes; `what` names it in messages.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::span<const std::byte> file,
                                                 std::string_view what);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> Open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorEntry>& entries() const { return header_.entries; }
  // The tensor's memory, aligned to its element; nothing when the name is unknown.
  std::optional<tensor::View> Find(std::string_view name) const;
  tensor::View ViewOf(const TensorEntry& entry) const;
  void GiveBackPages() const { file_.GiveBackPages(); }

 private:
  SafetensorsFile(base::MappedFile file, SafetensorsHeader header);
  void Realign();

  base::MappedFile file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string_view, size_t> by_name_;  // keys point into header_.entries
  // Copies of tensors that a writer placed off their element's alignment, by `begin`.
  std::unordered_map<uint64_t, tensor::Buffer> realigned_;
};

// What a header will say of a tensor.
struct TensorSpec {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
};

// Writes a file whose bytes arrive in pieces: Begin, Append until every byte is there, Finish. The
// file appears under its name only after Finish. Wider elements should come first, so that every
// tensor is aligned.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> Begin(const std::filesystem::path& path,
                                         std::span<const TensorSpec> tensors);
  SafetensorsWriter(SafetensorsWriter&&) = default;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = default;
  ~SafetensorsWriter();

  Status Append(std::span<const std::byte> bytes);
  Status Finish();

 private:
  SafetensorsWriter(std::filesystem::path path, std::filesystem::path temporary,
                    uint64_t data_bytes);
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once renamed or moved from
  std::ofstream out_;
  uint64_t remaining_bytes_ = 0;
};

struct NamedTensor {
  std::string name;
  tensor::View view;
};

// Writes the tensors (wider elements first, otherwise in the given order). Two equal names are a
// programmer error.
Status WriteSafetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

}  // namespace thalweg::checkpoint
