#include <fmt/format.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/config.h"
#include "checkpoint/limits.h"

namespace thalweg::checkpoint {
namespace {

using base::InvalidArgument;
using base::Json;

constexpr const char* kFileName = "generation_config.json";

// The member, or null when it is absent or JSON null (which the file uses for "unset").
const Json* Member(const Json& root, const char* name) {
  const auto found = root.find(name);
  return found == root.end() || found->is_null() ? nullptr : &*found;
}

Status ReadNumber(const Json& root, const char* name, double min, double max, double& out) {
  const Json* value = Member(root, name);
  if (value == nullptr) return {};
  if (!value->is_number()) {
    return InvalidArgument(fmt::format("{}: {} is not a number", kFileName, name));
  }
  out = value->get<double>();
  if (out >= min && out <= max) return {};
  return InvalidArgument(
      fmt::format("{}: {} is {}; it must be from {} to {}", kFileName, name, out, min, max));
}

Status ReadTopK(const Json& root, int64_t& out) {
  double top_k = 0;
  TW_TRY(ReadNumber(root, "top_k", -1, kMaxVocab, top_k));
  // Some files write -1 for "no limit".
  out = top_k <= 0 ? 0 : static_cast<int64_t>(top_k);
  if (top_k == static_cast<double>(static_cast<int64_t>(top_k))) return {};
  return InvalidArgument(fmt::format("{}: top_k is {}, not an integer", kFileName, top_k));
}

Status ReadFlag(const Json& root, const char* name, bool& out) {
  const Json* value = Member(root, name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) {
    return InvalidArgument(fmt::format("{}: {} is not true or false", kFileName, name));
  }
  out = value->get<bool>();
  return {};
}

Status AddEos(const Json& id, std::vector<int64_t>& out) {
  if (!id.is_number_integer() || id < 0 || id >= kMaxVocab) {
    return InvalidArgument(
        fmt::format("{}: eos_token_id must be a token id or a list of them", kFileName));
  }
  out.push_back(id.get<int64_t>());
  return {};
}

Status ReadEos(const Json& root, std::vector<int64_t>& out) {
  const Json* value = Member(root, "eos_token_id");
  if (value == nullptr) return {};
  if (!value->is_array()) return AddEos(*value, out);
  if (value->size() > kMaxListEntries) {
    return InvalidArgument(fmt::format("{}: eos_token_id has too many entries", kFileName));
  }
  for (const Json& id : *value) TW_TRY(AddEos(id, out));
  return {};
}

}  // namespace

Result<GenerationDefaults> GenerationDefaults::Parse(std::string_view json) {
  TW_ASSIGN(const Json root, base::ParseJson(json, kFileName));
  if (!root.is_object()) return InvalidArgument(fmt::format("{} is not an object", kFileName));
  GenerationDefaults out;
  TW_TRY(ReadFlag(root, "do_sample", out.do_sample));
  TW_TRY(ReadNumber(root, "temperature", 0, 100, out.temperature));
  TW_TRY(ReadNumber(root, "top_p", 0, 1, out.top_p));
  TW_TRY(ReadTopK(root, out.top_k));
  TW_TRY(ReadNumber(root, "min_p", 0, 1, out.min_p));
  TW_TRY(ReadNumber(root, "repetition_penalty", 1e-3, 100, out.repetition_penalty));
  TW_TRY(ReadEos(root, out.eos_token_ids));
  return out;
}

Result<GenerationDefaults> GenerationDefaults::Load(const std::filesystem::path& dir) {
  Result<std::string> text = base::ReadFile(dir / kFileName, kMaxConfigBytes);
  if (text.ok()) return Parse(*text);
  if (text.status().code() == base::Code::kNotFound) return GenerationDefaults();
  return text.status();
}

}  // namespace thalweg::checkpoint
