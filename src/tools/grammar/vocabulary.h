// A tokenizer as the grammar commands use one: --tokenizer names
// tokenizer.json, or a folder with it.
#pragma once

#include <filesystem>
#include <memory>

#include "base/status.h"
#include "grammar/vocabulary.h"
#include "text/tokenizer.h"

namespace thalweg::tools {

struct GrammarVocabulary {
  std::shared_ptr<const text::Tokenizer> tokenizer = {};
  std::shared_ptr<const grammar::Vocabulary> vocabulary = {};

  static Result<GrammarVocabulary> Load(const std::filesystem::path& tokenizer);
};

}  // namespace thalweg::tools
