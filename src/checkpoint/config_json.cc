#include <charconv>

#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"

namespace thalweg::checkpoint {
namespace {

using base::Json;

// The object at a dotted path, made when it is not there yet.
Json& At(Json& root, std::string_view path) {
  Json* at = &root;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    at = &(*at)[std::string(path.substr(0, dot))];
    path = dot == path.npos ? std::string_view() : path.substr(dot + 1);
  }
  return *at;
}

// The shortest decimal that a float reads back from: 1e-06, not 9.99999997475e-07.
double Shortest(float value) {
  char text[32] = {};
  std::to_chars(text, text + sizeof(text) - 1, value);
  double out = 0;
  std::from_chars(text, text + sizeof(text) - 1, out);
  return out;
}
double Shortest(double value) { return value; }

void PutFixed(const Config& config, Json& root) {
  root["architectures"] = Json::array({"DeepseekV41ForCausalLM"});
  for (const FixedField& field : FixedFields()) {
    if (!field.written) continue;
    if (std::string_view(field.section) == "vision_config" && !config.HasVision()) continue;
    At(root, field.section)[field.name] = field.value;
  }
}

}  // namespace

std::string ToJson(const Config& config) {
  Config copy = config;
  Json root;
  PutFixed(config, root);
  for (const IntField& field : IntFields()) {
    if (!GroupPresent(field.group, config)) continue;
    At(root, GroupSection(field.group))[field.name] = field.member(copy);
  }
  for (const RealField& field : RealFields()) {
    if (!GroupPresent(field.group, config)) continue;
    At(root, GroupSection(field.group))[field.name] =
        std::visit([&](auto member) { return Shortest(member(copy)); }, field.member);
  }
  for (const ListField& field : ListFields()) {
    At(root, GroupSection(field.group))[field.name] = field.member(copy);
  }
  if (config.HasVision()) {
    root["vision_config"]["max_wh_ratio"] =
        config.vision.max_wh_ratio ? Json(*config.vision.max_wh_ratio) : Json(nullptr);
  }
  return root.dump(2) + "\n";
}

}  // namespace thalweg::checkpoint
