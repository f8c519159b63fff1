#include "text/chat_message.h"

#include <fmt/format.h>

#include "text/utf8.h"

namespace thalweg::text {
namespace {

struct NamedRole {
  std::string_view name;
  Role role;
};
constexpr NamedRole kRoles[] = {{"system", Role::kSystem},
                                {"user", Role::kUser},
                                {"assistant", Role::kAssistant},
                                {"tool", Role::kTool},
                                {"latest_reminder", Role::kLatestReminder},
                                {"developer", Role::kSystem}};

std::string Qualified(const std::string& name_space, const std::string& name) {
  return name_space.empty() ? name : name_space + "::" + name;
}

}  // namespace

std::string_view RoleName(Role role) {
  for (const NamedRole& one : kRoles) {
    if (one.role == role) return one.name;
  }
  TW_CHECK(false);
  return "";
}

Result<Role> ParseRole(std::string_view name) {
  for (const NamedRole& one : kRoles) {
    if (one.name == name) return one.role;
  }
  return base::InvalidArgument(
      fmt::format("unknown role \"{}\"; use system, developer, user, assistant, tool or "
                  "latest_reminder",
                  Excerpt(name)));
}

std::string ToolDefinition::FullName() const { return Qualified(name_space, name); }
std::string FullName(const ToolCall& call) { return Qualified(call.name_space, call.name); }

std::vector<ToolDefinition> AllTools(const Conversation& conversation) {
  std::vector<ToolDefinition> tools = conversation.tools;
  for (const ChatMessage& message : conversation.messages)
    tools.insert(tools.end(), message.tools.begin(), message.tools.end());
  return tools;
}

}  // namespace thalweg::text
