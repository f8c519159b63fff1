#include "grammar/schema_uri.h"

#include <vector>

namespace thalweg::grammar {
namespace {

struct Reference {
  std::string_view scheme, authority, path, query;  // with their delimiters; empty: absent
};

size_t SchemeLength(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon > text.find_first_of("/?#")) return 0;
  return colon + 1;
}

std::string_view Take(size_t bytes, std::string_view* rest) {
  const std::string_view taken = rest->substr(0, bytes);
  rest->remove_prefix(taken.size());
  return taken;
}

Reference Split(std::string_view text) {
  Reference parts;
  parts.scheme = Take(SchemeLength(text), &text);
  if (text.starts_with("//")) parts.authority = Take(text.find_first_of("/?", 2), &text);
  parts.path = Take(text.find('?'), &text);
  parts.query = text;
  return parts;
}

// Drops the last segment of `path`, the slash before it included.
void DropLast(std::string* path) {
  const size_t slash = path->rfind('/');
  path->resize(slash == std::string::npos ? 0 : slash);
}

std::string RemoveDots(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const size_t next = path.find('/', path.front() == '/' ? 1 : 0);
    const std::string_view segment = Take(next, &path);
    const std::string_view name = segment.front() == '/' ? segment.substr(1) : segment;
    if (name == "..") DropLast(&out);
    if (name != "." && name != "..") out += segment;
    if ((name == "." || name == "..") && path.empty()) out += '/';
  }
  return out;
}

std::string Merge(const Reference& base, std::string_view path) {
  if (!base.authority.empty() && base.path.empty()) return "/" + std::string(path);
  const size_t slash = base.path.rfind('/');
  if (slash == std::string_view::npos) return std::string(path);
  return std::string(base.path.substr(0, slash + 1)) + std::string(path);
}

std::string Join(std::string_view scheme, std::string_view authority, std::string_view path,
                 std::string_view query) {
  std::string out(scheme);
  return out.append(authority).append(path).append(query);
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 &&
                        HexValue(text[i + 2]) >= 0;
    out += escape ? static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return out;
}

std::string ResolveDocument(std::string_view base_text, std::string_view text) {
  const Reference base = Split(base_text), ref = Split(text);
  if (!ref.scheme.empty()) return Join(ref.scheme, ref.authority, RemoveDots(ref.path), ref.query);
  if (!ref.authority.empty())
    return Join(base.scheme, ref.authority, RemoveDots(ref.path), ref.query);
  if (ref.path.empty())
    return Join(base.scheme, base.authority, base.path, ref.query.empty() ? base.query : ref.query);
  const std::string path = ref.path.front() == '/' ? std::string(ref.path) : Merge(base, ref.path);
  return Join(base.scheme, base.authority, RemoveDots(path), ref.query);
}

}  // namespace

std::string ResolveUri(std::string_view base, std::string_view reference) {
  const size_t hash = reference.find('#');
  const std::string document =
      ResolveDocument(base.substr(0, base.find('#')), reference.substr(0, hash));
  if (hash == std::string_view::npos) return document;
  return document + std::string(reference.substr(hash));
}

UriParts SplitFragment(std::string_view uri) {
  const size_t hash = uri.find('#');
  if (hash == std::string_view::npos) return {std::string(uri), ""};
  return {std::string(uri.substr(0, hash)), PercentDecoded(uri.substr(hash + 1))};
}

}  // namespace thalweg::grammar
