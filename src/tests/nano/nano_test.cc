// The shipped checkpoint gives its published figures: held-out losses, the reference's greedy
// continuations, drafts and confidences, and token ids.
#include "tests/nano/figures.h"
#include "tests/nano/nano_files.h"

namespace thalweg::tests {
namespace {

// Every sixth document is one that the reference scored.
TEST(Nano, HeldoutLossesCpu) { CheckHeldout("cpu", 6); }
TEST(Nano, ReferenceContinuationsCpu) { CheckReference("cpu", 20, 2.1, 0.95); }
TEST(Nano, ReferenceContinuations) { CheckReference("reference", 4, 1.3, 0.98); }

TEST(Nano, TokenizerReproducesTheIds) {
  const Result<text::Tokenizer> tokenizer =
      text::Tokenizer::Load(SourceDir() / "models/nano/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  int documents = 0;
  for (const base::Json& d : Heldout()) {
    const auto ids = d["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->Encode(d["text"].get<std::string>(), text::Specials::kRecognise), ids);
    EXPECT_EQ(tokenizer->Decode(ids, false), d["text"].get<std::string>());
    ++documents;
  }
  EXPECT_EQ(documents, 422);
}

}  // namespace
}  // namespace thalweg::tests
