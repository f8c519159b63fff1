#include "tools/verify/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tools/forward_order.h"

namespace thalweg::tools {
namespace {

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kFailed: return "FAIL";
    case Verdict::kSkipped: return "skipped";
  }
  return "";
}

std::string Line(const Check& check) {
  std::string line = fmt::format("{:<44} ", check.id.name);
  if (check.verdict == Verdict::kSkipped) {
    line += fmt::format("{:>12} {:>2} {:>10}  skipped", "", "", "");
  } else {
    line += fmt::format("{:>12.6g} {:>2} {:>10.6g}  {}", check.figure,
                        check.at_least ? ">=" : "<=", check.limit, VerdictName(check.verdict));
  }
  return check.note.empty() ? line + "\n" : fmt::format("{} ({})\n", line, check.note);
}

std::string Place(const Check& check) {
  if (check.id.layer < 0) return fmt::format("{}, {}", StageName(check.id.stage), check.id.part);
  return fmt::format("{}, layer {}, {}", StageName(check.id.stage), check.id.layer, check.id.part);
}

auto CauseOrder(const Check& check) {
  return std::tuple(check.id.stage, check.id.layer, ForwardOrder(check.id.part));
}

base::Json CheckJson(const Check& check) {
  base::Json json = {{"name", check.id.name},
                     {"stage", StageName(check.id.stage)},
                     {"part", check.id.part},
                     {"verdict", VerdictName(check.verdict)}};
  if (check.id.layer >= 0) json["layer"] = check.id.layer;
  if (check.verdict != Verdict::kSkipped) {
    json["figure"] = check.figure;
    json["limit"] = check.limit;
    json["rule"] = check.at_least ? "at least" : "at most";
  }
  if (!check.note.empty()) json["note"] = check.note;
  return json;
}

}  // namespace

std::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kExact: return "exact";
    case Stage::kLayers: return "layer-local";
    case Stage::kLongPrompt: return "long prompt";
    case Stage::kPrompts: return "prompts";
    case Stage::kDecode: return "decode";
    case Stage::kDrafts: return "drafts";
    case Stage::kVision: return "vision";
  }
  return "";
}

void VerifyReport::AtMost(CheckId id, double figure, double limit, std::string note) {
  const Verdict verdict = figure <= limit ? Verdict::kOk : Verdict::kFailed;
  checks.push_back({std::move(id), figure, limit, false, verdict, std::move(note)});
}

void VerifyReport::AtLeast(CheckId id, double figure, double limit, std::string note) {
  const Verdict verdict = figure >= limit ? Verdict::kOk : Verdict::kFailed;
  checks.push_back({std::move(id), figure, limit, true, verdict, std::move(note)});
}

void VerifyReport::Skip(CheckId id, std::string why) {
  checks.push_back({std::move(id), 0, 0, false, Verdict::kSkipped, std::move(why)});
}

int64_t VerifyReport::Count(Verdict verdict) const {
  return std::count_if(checks.begin(), checks.end(),
                       [&](const Check& check) { return check.verdict == verdict; });
}

const Check* VerifyReport::FirstFailure() const {
  const Check* first = nullptr;
  for (const Check& check : checks) {
    if (check.verdict != Verdict::kFailed) continue;
    if (first == nullptr || CauseOrder(check) < CauseOrder(*first)) first = &check;
  }
  return first;
}

std::string ToText(const VerifyReport& report) {
  std::string text;
  for (const Check& check : report.checks) text += Line(check);
  text +=
      fmt::format("{}: backend {}, {} limits{}: {} checks ok, {} failed, {} skipped\n",
                  report.folder, report.backend, report.same_rounding ? "same-rounding" : "free",
                  report.int8 ? ", widened for int8" : "", report.Count(Verdict::kOk),
                  report.Count(Verdict::kFailed), report.Count(Verdict::kSkipped));
  if (const Check* first = report.FirstFailure(); first != nullptr) {
    text += fmt::format("first failure: {} ({})\n", first->id.name, Place(*first));
  }
  return text;
}

base::Json ToJson(const VerifyReport& report) {
  base::Json json = {{"folder", report.folder},
                     {"backend", report.backend},
                     {"limits", report.same_rounding ? "same_rounding" : "free"},
                     {"numerics", report.int8 ? "fast" : "exact"},
                     {"ok", report.ok()},
                     {"checks_ok", report.Count(Verdict::kOk)},
                     {"checks_failed", report.Count(Verdict::kFailed)},
                     {"checks_skipped", report.Count(Verdict::kSkipped)}};
  const Check* first = report.FirstFailure();
  json["first_failure"] = first == nullptr ? base::Json() : CheckJson(*first);
  json["checks"] = base::Json::array();
  for (const Check& check : report.checks) json["checks"].push_back(CheckJson(check));
  return json;
}

}  // namespace thalweg::tools
