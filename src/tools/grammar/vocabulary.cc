#include "tools/grammar/vocabulary.h"

#include <utility>

namespace thalweg::tools {

// The end of a text is asked of the matcher, so no token needs to stand for it.
Result<GrammarVocabulary> GrammarVocabulary::Load(const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  TW_ASSIGN(text::Tokenizer tokenizer,
            text::Tokenizer::Load(folder ? path / "tokenizer.json" : path));
  GrammarVocabulary out;
  out.tokenizer = std::make_shared<const text::Tokenizer>(std::move(tokenizer));
  out.vocabulary = grammar::Vocabulary::Of(*out.tokenizer, {.size = out.tokenizer->vocab_size()});
  return out;
}

}  // namespace thalweg::tools
