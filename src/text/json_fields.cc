#include "text/json_fields.h"

#include <fmt/format.h>

namespace thalweg::text {
namespace {

// The document itself has no path.
std::string WithPath(std::string_view path, std::string_view what) {
  return path.empty() ? std::string(what) : fmt::format("{}: {}", path, what);
}

}  // namespace

Status JsonField::Wrong(std::string_view what) const {
  return base::InvalidArgument(WithPath(path_, what));
}

Status JsonField::NotSupported(std::string_view what) const {
  return base::Unsupported(WithPath(path_, what));
}

Result<JsonField> JsonField::Member(std::string_view name) const {
  TW_ASSIGN(std::optional<JsonField> member, Optional(name));
  if (!member) return Wrong(fmt::format("the field \"{}\" is missing", name));
  return *std::move(member);
}

Result<std::optional<JsonField>> JsonField::Optional(std::string_view name) const {
  TW_TRY(RequireObject());
  const auto at = value_->find(name);
  if (at == value_->end() || at->is_null()) return std::optional<JsonField>();
  return std::optional(
      JsonField(*at, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name)));
}

JsonField JsonField::Element(size_t index) const {
  return JsonField((*value_)[index], fmt::format("{}[{}]", path_, index));
}

Result<std::string> JsonField::AsString() const {
  if (!value_->is_string()) return Wrong("must be a string");
  return value_->get<std::string>();
}

Result<bool> JsonField::AsBool() const {
  if (!value_->is_boolean()) return Wrong("must be true or false");
  return value_->get<bool>();
}

Result<int32_t> JsonField::AsId(int32_t max) const {
  // An unsigned value beyond the signed range reads as a negative one here, which is refused too.
  const int64_t value = value_->is_number_integer() ? value_->get<int64_t>() : -1;
  if (value >= 0 && value <= max) return static_cast<int32_t>(value);
  return Wrong(fmt::format("must be a whole number 0..{}, not {}", max, value_->dump()));
}

Status JsonField::RequireArray() const {
  return value_->is_array() ? Status() : Wrong("must be an array");
}

Status JsonField::RequireObject() const {
  return value_->is_object() ? Status() : Wrong("must be an object");
}

Result<bool> JsonField::BoolOr(std::string_view name, bool fallback) const {
  TW_ASSIGN(const std::optional<JsonField> member, Optional(name));
  if (!member) return fallback;
  return member->AsBool();
}

Result<std::string> JsonField::StringOr(std::string_view name, std::string_view fallback) const {
  TW_ASSIGN(const std::optional<JsonField> member, Optional(name));
  if (!member) return std::string(fallback);
  return member->AsString();
}

}  // namespace thalweg::text
