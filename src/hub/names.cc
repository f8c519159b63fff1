#include "hub/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "hub/limits.h"

namespace thalweg::hub {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool IsPlain(char c) { return IsLetter(c) || IsDigit(c) || c == '.' || c == '_' || c == '-'; }

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Printable for messages: control characters, which could rewrite a terminal, become '?'.
std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, 120));
  std::replace_if(shown.begin(), shown.end(), IsControl, '?');
  return shown + (text.size() > 120 ? "..." : "");
}

Status BadName(std::string_view name, std::string_view why) {
  return base::InvalidArgument(fmt::format("model name \"{}\": {}", Shown(name), why));
}

bool PartEndsWell(std::string_view part) {
  const auto bad = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && !bad(part.front()) && !bad(part.back());
}

// What is wrong with a relative path of '/'-separated parts; "" when nothing is.
std::string_view PathProblem(std::string_view path) {
  while (true) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty()) return "it has an empty part";
    if (part == "." || part == "..") return "it has a \".\" or \"..\" part";
    if (part.size() > kMaxFileNamePartBytes) return "a part of it is too long";
    if (end == path.size()) return {};
    path.remove_prefix(end + 1);
  }
}

}  // namespace

Status CheckRepoName(std::string_view name) {
  if (name.empty() || name.size() > kMaxRepoNameBytes)
    return BadName(name, fmt::format("a name has 1 to {} bytes", kMaxRepoNameBytes));
  const size_t slash = name.find('/');
  const bool two = slash != std::string_view::npos;
  const std::string_view first = name.substr(0, slash);
  const std::string_view second = two ? name.substr(slash + 1) : first;
  if (!std::all_of(first.begin(), first.end(), IsPlain) ||
      !std::all_of(second.begin(), second.end(), IsPlain))
    return BadName(name, "a Hugging Face name is org/name of letters, digits, '.', '_' and '-'");
  if (!PartEndsWell(first) || !PartEndsWell(second))
    return BadName(name, "neither part may be empty, begin or end with '-' or '.'");
  if (name.find("--") != std::string_view::npos || name.find("..") != std::string_view::npos)
    return BadName(name, "\"--\" and \"..\" are not allowed");
  return {};
}

Status CheckRevision(std::string_view revision) {
  const auto bad = [&](std::string_view why) {
    return base::InvalidArgument(fmt::format("revision \"{}\": {}", Shown(revision), why));
  };
  if (revision.empty() || revision.size() > kMaxRevisionBytes)
    return bad(fmt::format("a revision has 1 to {} bytes", kMaxRevisionBytes));
  const auto allowed = [](char c) { return IsPlain(c) || c == '/'; };
  if (!std::all_of(revision.begin(), revision.end(), allowed))
    return bad("a branch, tag or commit has letters, digits, '.', '_', '-' and '/'");
  const std::string_view problem = PathProblem(revision);
  return problem.empty() ? Status() : bad(problem);
}

Status CheckFileName(std::string_view name) {
  const auto bad = [&](std::string_view why) {
    return base::InvalidArgument(fmt::format("file name \"{}\": {}", Shown(name), why));
  };
  if (name.empty() || name.size() > kMaxFileNameBytes)
    return bad(fmt::format("it must have 1 to {} bytes", kMaxFileNameBytes));
  const auto forbidden = [](char c) { return IsControl(c) || c == '\\'; };
  if (std::any_of(name.begin(), name.end(), forbidden))
    return bad("it has a control character or backslash");
  const std::string_view problem = PathProblem(name);
  return problem.empty() ? Status() : bad(problem);
}

bool IsLowerHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return IsDigit(c) || (c >= 'a' && c <= 'f');
         });
}

bool IsCommit(std::string_view text) { return IsLowerHex(text, 40); }

bool LooksLikePath(std::string_view name) {
  if (name.empty()) return false;
  if (name.front() == '/' || name.front() == '~' || name.back() == '/') return true;
  if (name == "." || name == ".." || name.starts_with("./") || name.starts_with("../")) return true;
  return std::count(name.begin(), name.end(), '/') > 1;
}

std::string CacheFolderName(std::string_view repo_name) {
  std::string folder = "models--";
  for (const char c : repo_name) folder += c == '/' ? std::string("--") : std::string(1, c);
  return folder;
}

std::string PercentEncode(std::string_view text, std::string_view keep) {
  std::string out;
  for (const char c : text) {
    const bool plain = IsPlain(c) || c == '~' || keep.find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace thalweg::hub
