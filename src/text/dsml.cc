#include "text/dsml.h"

namespace thalweg::text {

DsmlTag ClosingTag(std::string_view name) {
  if (name.starts_with(' ')) name.remove_prefix(1);
  if (name.starts_with("param")) return DsmlTag::kParameter;
  if (name.starts_with("invoke")) return DsmlTag::kInvoke;
  if (name.find("call") != std::string_view::npos) return DsmlTag::kBlock;
  return DsmlTag::kUnknown;
}

}  // namespace thalweg::text
