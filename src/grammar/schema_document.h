// Where the schemas of one document are: names by $id, $anchor and JSON pointer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "grammar/limits.h"

namespace thalweg::grammar {

struct SchemaPlace {
  const base::Json* json = nullptr;
  std::string path = {};  // JSON pointer from the root, for messages
  std::string base = {};  // absolute URI, without fragment, of the resource it is in
};

// "schema at /a/b: keyword: problem", with "the root" for an empty path.
std::string SchemaMessage(std::string_view path, std::string_view keyword,
                          std::string_view problem);
Status SchemaError(std::string_view path, std::string_view keyword, std::string_view problem);
Status SchemaUnsupported(std::string_view path, std::string_view keyword, std::string_view problem);

class SchemaDocument {
 public:
  // Checks how deep the document is nested, and finds the names in it. `root` must outlive it.
  static Result<SchemaDocument> Scan(const base::Json& root, const Limits& limits);

  const SchemaPlace& root() const { return root_; }
  // Draft 7 or older by its $schema: what stands beside $ref is not looked at.
  bool legacy() const { return legacy_; }
  // The place of a subschema `json`, `steps` ("properties/a") below `parent`.
  SchemaPlace Child(const SchemaPlace& parent, std::string_view steps,
                    const base::Json& json) const;
  // What `reference`, written at `from`, names; an error when that is not in this document.
  Result<SchemaPlace> Resolve(std::string_view reference, const SchemaPlace& from,
                              std::string_view keyword) const;
  // How many schemas have this $dynamicAnchor.
  int64_t CountDynamicAnchors(std::string_view name) const;

 private:
  class Scanner;
  std::string BaseOf(std::string_view base, const base::Json& json) const;

  SchemaPlace root_;
  bool legacy_ = false;
  std::map<std::string, SchemaPlace, std::less<>> names_;  // "uri", "uri#anchor"; null: several
  std::map<std::string, int64_t, std::less<>> dynamic_anchors_;
};

// One step of a JSON pointer: ~ and / escaped.
std::string PointerStep(std::string_view key);

}  // namespace thalweg::grammar
