#include <utility>

#include "spec/calibration.h"
#include "spec/limits.h"
#include "spec/table_fields.h"

namespace thalweg::spec {
namespace {

constexpr std::string_view kFormat = "thalweg draft calibration";
constexpr int64_t kVersion = 1;

Status CheckSizes(const Calibration& c, std::string_view what) {
  const size_t slots = c.temperatures.size();
  if (slots == c.error_before.size() && slots == c.error_after.size()) return {};
  return base::InvalidArgument(std::string(what) +
                               ": temperatures and errors must be of one length");
}

}  // namespace

std::string ToJson(const Calibration& c) {
  base::Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["model"] = c.model;
  json["blocks"] = c.blocks;
  json["temperatures"] = c.temperatures;
  json["error_before"] = c.error_before;
  json["error_after"] = c.error_after;
  return json.dump(1, ' ', false, base::Json::error_handler_t::replace) + "\n";
}

Result<Calibration> ParseCalibration(std::string_view text, std::string_view what) {
  TW_ASSIGN(const base::Json json, base::ParseJson(text, what));
  TW_ASSIGN(const TableFields fields,
            TableFields::Open(json, std::string(what),
                              {"format", "version", "model", "blocks", "temperatures",
                               "error_before", "error_after"}));
  TW_TRY(fields.Is("format", kFormat));
  TW_TRY(fields.Integer("version", kVersion, kVersion).status());
  constexpr auto kSlots = static_cast<size_t>(kMaxSlots);
  Calibration c;
  TW_ASSIGN(c.model, fields.Text("model", kMaxKeyBytes));
  TW_ASSIGN(c.blocks, fields.Integer("blocks", 0, INT64_MAX));
  TW_ASSIGN(c.temperatures,
            fields.Reals("temperatures", kSlots, kLeastTemperature, kMostTemperature));
  TW_ASSIGN(c.error_before, fields.Reals("error_before", kSlots, 0, 1));
  TW_ASSIGN(c.error_after, fields.Reals("error_after", kSlots, 0, 1));
  TW_TRY(CheckSizes(c, what));
  return c;
}

}  // namespace thalweg::spec
