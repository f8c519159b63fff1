// Fields that the protocols have and this server cannot honour. Read over, they would change what
// the answer means; so they are refused, but for the value that asks for nothing. Fields that only
// hint (docs/server.md lists them) and fields that no protocol knows are read over.
#pragma once

#include "base/json.h"
#include "base/status.h"

namespace thalweg::server {

// Errors are "field: why, and what to do instead".
Status RefuseChatFields(const base::Json& body);
Status RefuseCompletionFields(const base::Json& body);
Status RefuseMessagesFields(const base::Json& body);
Status RefuseResponsesFields(const base::Json& body);

}  // namespace thalweg::server
