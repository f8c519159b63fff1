// thalweg bench tokenizer: how fast text becomes ids and ids become text.
#pragma once

#include "base/status.h"
#include "text/tokenizer.h"

namespace thalweg::tools {

// Encodes and decodes generated text of each kind (text/sample_text.h) on the calling thread and
// prints MiB of UTF-8 per second and bytes per token, as a table or as one JSON document. A kind
// whose text does not come back from its ids is an error.
Status BenchTokenizer(const text::Tokenizer& tokenizer, bool json);

}  // namespace thalweg::tools
