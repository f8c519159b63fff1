// Whether calls of an answer follow the schemas of their tools, for requests that ask (strict
// tools, check_arguments): what does not is reported beside the call, which the client gets all the
// same.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/argument_check.h"
#include "server/structure.h"
#include "text/chat_message.h"
#include "text/output_events.h"

namespace thalweg::server {

// A call that is not as its tool wants it.
struct ToolError {
  size_t index = 0;  // of the call
  std::string id = {}, name = {};
  std::string message = {};
};

// [{"index", "id", "name", "message"}]
Json ToolErrorsJson(const std::vector<ToolError>& errors);

// Checks by the text of their schema, those that were used last. Thread-safe.
class CheckCache {
 public:
  using Ref = std::shared_ptr<const api::ArgumentCheck>;
  Result<Ref> Get(const Json& schema);

 private:
  struct Entry {
    std::string key;
    Ref check;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used one first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
};

// Of one request.
class ToolChecks {
 public:
  // `all`: of every tool; otherwise of the strict ones. Null: there is nothing to check. A schema
  // that cannot be checked is an error that names its place.
  static Result<std::shared_ptr<const ToolChecks>> Make(
      const std::vector<text::ToolDefinition>& tools, bool all,
      const std::vector<ToolSchemaPlace>& places, CheckCache* cache);

  std::vector<ToolError> Check(const std::vector<text::DecodedCall>& calls) const;

 private:
  // What is wrong with a call; empty: nothing.
  std::string Complaint(const text::DecodedCall& call) const;

  std::unordered_map<std::string, CheckCache::Ref> by_name_;  // null: any arguments
};

}  // namespace thalweg::server
