#include "server/tool_checks.h"

#include <fmt/format.h>

#include <utility>

#include "server/limits.h"

namespace thalweg::server {
namespace {

std::string PlaceOf(const std::string& name, const std::vector<ToolSchemaPlace>& places) {
  for (const ToolSchemaPlace& place : places) {
    if (place.name == name) return place.path;
  }
  return "tools";
}

}  // namespace

Json ToolErrorsJson(const std::vector<ToolError>& errors) {
  Json json = Json::array();
  for (const ToolError& error : errors) {
    json.push_back(Json{{"index", error.index},
                        {"id", error.id},
                        {"name", error.name},
                        {"message", error.message}});
  }
  return json;
}

Result<CheckCache::Ref> CheckCache::Get(const Json& schema) {
  std::string key = schema.dump();
  {
    const std::scoped_lock lock(mutex_);
    if (const auto at = by_key_.find(key); at != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, at->second);
      return at->second->check;
    }
  }
  TW_ASSIGN(api::ArgumentCheck made, api::ArgumentCheck::Create(schema));
  auto check = std::make_shared<const api::ArgumentCheck>(std::move(made));
  const std::scoped_lock lock(mutex_);
  if (by_key_.contains(key)) return Ref(std::move(check));  // another thread was faster
  entries_.push_front({.key = std::move(key), .check = check});
  by_key_.emplace(entries_.front().key, entries_.begin());
  if (entries_.size() > kMaxCachedChecks) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return Ref(std::move(check));
}

Result<std::shared_ptr<const ToolChecks>> ToolChecks::Make(
    const std::vector<text::ToolDefinition>& tools, bool all,
    const std::vector<ToolSchemaPlace>& places, CheckCache* cache) {
  auto checks = std::make_shared<ToolChecks>();
  bool any = false;
  for (const text::ToolDefinition& tool : tools) {
    CheckCache::Ref& check = checks->by_name_[tool.FullName()];
    if (!all && !tool.strict.value_or(false)) continue;
    any = true;
    Result<CheckCache::Ref> made = cache->Get(tool.parameters);
    if (!made.ok()) return made.status().WithContext(PlaceOf(tool.FullName(), places));
    check = *std::move(made);
  }
  if (!any) checks.reset();
  return std::shared_ptr<const ToolChecks>(std::move(checks));
}

std::string ToolChecks::Complaint(const text::DecodedCall& call) const {
  const auto at = by_name_.find(call.name);
  if (at == by_name_.end()) return fmt::format("there is no tool \"{}\"", call.name);
  if (at->second == nullptr) return {};
  if (!call.complete) return "the answer ended inside the call";
  const Status status = at->second->Check(call.arguments);
  return status.ok() ? std::string() : status.message();
}

std::vector<ToolError> ToolChecks::Check(const std::vector<text::DecodedCall>& calls) const {
  std::vector<ToolError> errors;
  for (size_t i = 0; i < calls.size(); ++i) {
    std::string complaint = Complaint(calls[i]);
    if (complaint.empty()) continue;
    errors.push_back(
        {.index = i, .id = calls[i].id, .name = calls[i].name, .message = std::move(complaint)});
  }
  return errors;
}

}  // namespace thalweg::server
