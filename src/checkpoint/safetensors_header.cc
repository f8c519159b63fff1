#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "base/math.h"
#include "checkpoint/limits.h"
#include "checkpoint/safetensors.h"

namespace thalweg::checkpoint {
namespace {

using base::InvalidArgument;
using base::Json;

constexpr uint64_t kLengthBytes = 8;  // the header's length, little-endian, opens the file

// The header's length, checked against the file before anything trusts it.
Result<uint64_t> HeaderLength(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return InvalidArgument(
        fmt::format("the file has {} bytes, too few for a safetensors header", file.size()));
  }
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(file[i]);
  if (length > kMaxHeaderBytes) {
    return InvalidArgument(
        fmt::format("the header claims {} bytes, the limit is {}", length, kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    return InvalidArgument(fmt::format(
        "the header claims {} bytes, but only {} follow: the file is truncated or not safetensors",
        length, file.size() - kLengthBytes));
  }
  return length;
}

Result<uint64_t> AsUnsigned(const Json& value, const char* what) {
  // A parser yields unsigned for every non-negative integer.
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  return InvalidArgument(fmt::format("{} must hold non-negative integers", what));
}

Result<tensor::DType> ParseDType(const Json& description) {
  const auto dtype = description.find("dtype");
  if (dtype == description.end() || !dtype->is_string()) return InvalidArgument("it has no dtype");
  const auto& name = dtype->get_ref<const std::string&>();
  const std::optional<tensor::DType> known = tensor::ParseSafetensorsName(name);
  if (known) return *known;
  return base::Unsupported(
      fmt::format("its dtype \"{}\" is not one that is read here", name.substr(0, 32)));
}

Result<tensor::Shape> ParseShape(const Json& description) {
  const auto shape = description.find("shape");
  if (shape == description.end() || !shape->is_array()) return InvalidArgument("it has no shape");
  if (shape->size() > tensor::Shape::kMaxRank) {
    return InvalidArgument(fmt::format("it has {} dimensions, the limit is {}", shape->size(),
                                       tensor::Shape::kMaxRank));
  }
  std::vector<int64_t> dims;
  for (const Json& dim : *shape) {
    TW_ASSIGN(const uint64_t size, AsUnsigned(dim, "its shape"));
    if (size > INT64_MAX) return InvalidArgument("its shape does not fit 63 bits");
    dims.push_back(static_cast<int64_t>(size));
  }
  return tensor::Shape(dims);
}

Status ParseOffsets(const Json& description, TensorEntry& entry) {
  const auto offsets = description.find("data_offsets");
  if (offsets == description.end() || !offsets->is_array() || offsets->size() != 2) {
    return InvalidArgument("its data_offsets must be two numbers, begin and end");
  }
  TW_ASSIGN(entry.begin, AsUnsigned((*offsets)[0], "its data_offsets"));
  TW_ASSIGN(entry.end, AsUnsigned((*offsets)[1], "its data_offsets"));
  if (entry.begin <= entry.end) return {};
  return InvalidArgument(
      fmt::format("its data_offsets [{}, {}] run backwards", entry.begin, entry.end));
}

// Bytes that dtype and shape ask for; an error when the product leaves 63 bits.
Result<uint64_t> BytesOf(tensor::DType dtype, const tensor::Shape& shape) {
  uint64_t bytes = static_cast<uint64_t>(tensor::SizeOf(dtype));
  for (const int64_t dim : shape.dims()) {
    const std::optional<uint64_t> product = base::CheckedMul(bytes, static_cast<uint64_t>(dim));
    if (!product || *product > INT64_MAX) {
      return InvalidArgument(
          fmt::format("the size of its shape {} does not fit 63 bits", shape.ToString()));
    }
    bytes = *product;
  }
  return bytes;
}

Status ParseTensor(const Json& description, uint64_t data_bytes, TensorEntry& entry) {
  if (!description.is_object()) return InvalidArgument("its description is not an object");
  TW_ASSIGN(entry.dtype, ParseDType(description));
  TW_ASSIGN(entry.shape, ParseShape(description));
  TW_TRY(ParseOffsets(description, entry));
  TW_ASSIGN(const uint64_t bytes, BytesOf(entry.dtype, entry.shape));
  if (entry.end > data_bytes) {
    return InvalidArgument(
        fmt::format("it ends at byte {} of the data, but the file holds {}: it is truncated",
                    entry.end, data_bytes));
  }
  if (entry.end - entry.begin == bytes) return {};
  return InvalidArgument(fmt::format("its dtype {} and shape {} take {} bytes, its offsets give {}",
                                     tensor::SafetensorsName(entry.dtype), entry.shape.ToString(),
                                     bytes, entry.end - entry.begin));
}

Result<Json> ParseHeaderJson(std::string_view text) {
  base::JsonLimits limits;
  limits.max_depth = 4;
  limits.max_elements = kMaxHeaderElements;
  TW_ASSIGN(Json root, base::ParseJson(text, "the header", limits));
  if (!root.is_object()) return InvalidArgument("the header is not a JSON object");
  if (root.size() > kMaxTensorsPerFile) {
    return InvalidArgument(fmt::format("the header lists {} tensors, the limit is {}", root.size(),
                                       kMaxTensorsPerFile));
  }
  return root;
}

Result<std::vector<TensorEntry>> ParseEntries(const Json& root, uint64_t data_bytes) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, description] : root.items()) {
    if (name == "__metadata__") continue;
    if (name.size() > kMaxNameBytes) {
      return InvalidArgument(
          fmt::format("a tensor name has {} bytes, the limit is {}", name.size(), kMaxNameBytes));
    }
    TensorEntry entry;
    entry.name = name;
    TW_TRY(ParseTensor(description, data_bytes, entry)
               .WithContext(fmt::format("tensor \"{}\"", name)));
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Ranges, sorted by begin, must cover the data exactly once: no overlap, no hidden bytes.
Status CheckCoverage(const std::vector<TensorEntry>& entries, uint64_t data_bytes) {
  uint64_t covered = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const TensorEntry& entry = entries[i];
    if (entry.begin < covered) {
      return InvalidArgument(
          fmt::format("tensor \"{}\" overlaps tensor \"{}\"", entry.name, entries[i - 1].name));
    }
    if (entry.begin > covered) {
      return InvalidArgument(
          fmt::format("bytes {} to {} of the data, before tensor \"{}\", belong "
                      "to no tensor",
                      covered, entry.begin, entry.name));
    }
    covered = entry.end;
  }
  if (covered == data_bytes) return {};
  return InvalidArgument(
      fmt::format("{} bytes behind the last tensor belong to no tensor", data_bytes - covered));
}

Result<SafetensorsHeader> ParseChecked(std::span<const std::byte> file) {
  TW_ASSIGN(const uint64_t length, HeaderLength(file));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  TW_ASSIGN(const Json root, ParseHeaderJson(text));
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  const uint64_t data_bytes = file.size() - header.data_offset;
  TW_ASSIGN(header.entries, ParseEntries(root, data_bytes));
  std::ranges::stable_sort(header.entries, [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  TW_TRY(CheckCoverage(header.entries, data_bytes));
  return header;
}

}  // namespace

Result<SafetensorsHeader> ParseSafetensorsHeader(std::span<const std::byte> file,
                                                 std::string_view what) {
  Result<SafetensorsHeader> header = ParseChecked(file);
  if (!header.ok()) return header.status().WithContext(what);
  return header;
}

}  // namespace thalweg::checkpoint
