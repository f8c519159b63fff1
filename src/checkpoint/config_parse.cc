#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/limits.h"

namespace thalweg::checkpoint {
namespace {

using base::InvalidArgument;
using base::Json;

// Fills a Config from the document. Each step returns the first thing that is wrong.
class ConfigReader {
 public:
  explicit ConfigReader(const Json& root) : root_(root) {}

  Result<Config> Read() {
    if (!root_.is_object()) return InvalidArgument("the document is not a JSON object");
    TW_TRY(ReadSwitches());
    TW_TRY(CheckFixed());
    for (const IntField& field : IntFields()) TW_TRY(ReadInt(field));
    for (const RealField& field : RealFields()) TW_TRY(ReadReal(field));
    for (const ListField& field : ListFields()) TW_TRY(ReadList(field));
    TW_TRY(ReadMaxRatio());
    return config_;
  }

 private:
  // The object of a section path; null when a part is missing, not an object, or null.
  const Json* Section(std::string_view path) const {
    const Json* at = &root_;
    while (!path.empty()) {
      const size_t dot = path.find('.');
      const auto member = at->find(path.substr(0, dot));
      if (member == at->end() || !member->is_object()) return nullptr;
      at = &*member;
      path = dot == path.npos ? std::string_view() : path.substr(dot + 1);
    }
    return at;
  }

  const Json* Field(std::string_view section, std::string_view name) const {
    const Json* object = Section(section);
    if (object == nullptr) return nullptr;
    const auto member = object->find(name);
    return member == object->end() ? nullptr : &*member;
  }

  // Which optional parts the document has; later steps skip the fields of absent ones.
  Status ReadSwitches() {
    if (Section("text_config") == nullptr) {
      return InvalidArgument(
          "text_config is missing; the released nested layout is read, not the flat "
          "inference/config.json");
    }
    const Json* vision = Field("", "vision_config");
    if (vision != nullptr && !vision->is_null()) {
      if (!vision->is_object()) return InvalidArgument("vision_config is not an object");
      config_.vision.num_hidden_layers = 1;  // present; the true number is read with the rest
    }
    const Json* drafts = Field("text_config", "num_nextn_predict_layers");
    config_.num_nextn_predict_layers = drafts != nullptr && *drafts == Json(0) ? 0 : 1;
    const Json* engram = Field("text_config", "engram_layer_ids");
    const bool none = engram != nullptr && engram->is_array() && engram->empty();
    if (!none) config_.engram_layer_ids.push_back(0);
    return {};
  }

  Status CheckFixed() const {
    for (const FixedField& field : FixedFields()) {
      if (std::string_view(field.section) == "vision_config" && !config_.HasVision()) continue;
      const std::string path = *field.section == '\0'
                                   ? std::string(field.name)
                                   : fmt::format("{}.{}", field.section, field.name);
      const Json* value = Field(field.section, field.name);
      if (value == nullptr && !field.required) continue;
      if (value == nullptr) {
        return InvalidArgument(fmt::format("{} is missing; it must be {}, because {}", path,
                                           field.value.dump(), field.reason));
      }
      if (*value != field.value) {
        return base::Unsupported(fmt::format("{} is {}; it must be {}, because {}", path,
                                             Shown(*value), field.value.dump(), field.reason));
      }
    }
    return {};
  }

  // A value for a message: short, and never invalid UTF-8.
  static std::string Shown(const Json& value) {
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
  }

  Result<const Json*> Require(FieldGroup group, const char* name) const {
    const Json* value = Field(GroupSection(group), name);
    if (value == nullptr) return InvalidArgument(FieldPath(group, name) + " is missing");
    return value;
  }

  static Result<int64_t> AsInt(const Json& value, const std::string& path) {
    if (!value.is_number_integer()) {
      return InvalidArgument(fmt::format("{} is {}, not an integer", path, Shown(value)));
    }
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
      return InvalidArgument(fmt::format("{} is {}, beyond 64 bits", path, Shown(value)));
    }
    return value.get<int64_t>();
  }

  Status ReadInt(const IntField& field) {
    if (!GroupPresent(field.group, config_)) return {};
    TW_ASSIGN(const Json* value, Require(field.group, field.name));
    TW_ASSIGN(field.member(config_), AsInt(*value, FieldPath(field.group, field.name)));
    // A zero here would silently mean "absent" to the fields that follow.
    if (field.group == FieldGroup::kVision && config_.vision.num_hidden_layers < 1) {
      return InvalidArgument("vision_config.num_hidden_layers must be at least 1");
    }
    return {};
  }

  Status ReadReal(const RealField& field) {
    if (!GroupPresent(field.group, config_)) return {};
    TW_ASSIGN(const Json* value, Require(field.group, field.name));
    if (!value->is_number()) {
      return InvalidArgument(
          fmt::format("{} is {}, not a number", FieldPath(field.group, field.name), Shown(*value)));
    }
    const double number = value->get<double>();
    std::visit([&](auto member) { Assign(member(config_), number); }, field.member);
    return {};
  }

  static void Assign(double& member, double number) { member = number; }
  static void Assign(float& member, double number) { member = static_cast<float>(number); }

  Status ReadList(const ListField& field) {
    const std::string path = FieldPath(field.group, field.name);
    std::vector<int64_t>& list = field.member(config_);
    if (!GroupPresent(field.group, config_)) return {};
    TW_ASSIGN(const Json* value, Require(field.group, field.name));
    if (!value->is_array()) {
      return InvalidArgument(fmt::format("{} is {}, not a list", path, Shown(*value)));
    }
    if (value->size() > kMaxListEntries) {
      return InvalidArgument(
          fmt::format("{} has {} entries, the limit is {}", path, value->size(), kMaxListEntries));
    }
    list.clear();
    for (const Json& item : *value) {
      TW_ASSIGN(const int64_t number, AsInt(item, fmt::format("{}[{}]", path, list.size())));
      list.push_back(number);
    }
    return {};
  }

  Status ReadMaxRatio() {
    const Json* value = Field("vision_config", "max_wh_ratio");
    if (!config_.HasVision() || value == nullptr || value->is_null()) return {};
    if (!value->is_number()) {
      return InvalidArgument(
          fmt::format("vision_config.max_wh_ratio is {}, not a number or null", Shown(*value)));
    }
    config_.vision.max_wh_ratio = value->get<double>();
    return {};
  }

  const Json& root_;
  Config config_;
};

}  // namespace

Result<Config> Config::Load(const std::filesystem::path& config_json) {
  TW_ASSIGN(const std::string text, base::ReadFile(config_json, kMaxConfigBytes));
  return Parse(text, config_json.string());
}

Result<Config> Config::Parse(std::string_view json, std::string_view what) {
  TW_ASSIGN(const Json root, base::ParseJson(json, what));
  Result<Config> config = ConfigReader(root).Read();
  if (!config.ok()) return config.status().WithContext(what);
  TW_TRY(Validate(*config).WithContext(what));
  return config;
}

}  // namespace thalweg::checkpoint
