// The fields of config.json as rows: where they stand, which member they fill and which values are
// legal. Parsing, validation and writing all walk these tables.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "checkpoint/config.h"

namespace thalweg::checkpoint {

// Fields that are present or absent together.
enum class FieldGroup { kTop, kText, kRope, kEngram, kDraft, kVision };

// Whether a config has the fields of a group: Engram, draft and vision may be absent.
bool GroupPresent(FieldGroup group, const Config& config);
// The object of the nested layout that holds the group: "text_config" and the like.
std::string_view GroupSection(FieldGroup group);
// "text_config.hidden_size".
std::string FieldPath(FieldGroup group, std::string_view name);

struct IntField {
  FieldGroup group;
  const char* name;
  int64_t& (*member)(Config&);
  int64_t min;
  int64_t max;
};
std::span<const IntField> IntFields();

struct RealField {
  FieldGroup group;
  const char* name;
  std::variant<double& (*)(Config&), float& (*)(Config&)> member;
  double min;
  double max;
};
std::span<const RealField> RealFields();

struct ListField {
  FieldGroup group;
  const char* name;
  std::vector<int64_t>& (*member)(Config&);
};
std::span<const ListField> ListFields();

// Fields with one legal value, because the architecture has no other. `required`: absence is an
// error too. `written`: ToJson emits it.
struct FixedField {
  const char* section;  // "" for the top level
  const char* name;
  base::Json value;
  bool required;
  bool written;
  const char* reason;
};
std::span<const FixedField> FixedFields();

}  // namespace thalweg::checkpoint
