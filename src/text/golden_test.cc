// The tokenizer gives the ids and texts that the reference gave for the golden checkpoints, and the
// streaming decoder gives the same text token by token.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/json.h"
#include "base/mapped_file.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace thalweg::text {
namespace {

const std::filesystem::path kSource = THALWEG_SOURCE_DIR;
constexpr uint64_t kMaxBytes = 64u << 20;

std::string Stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder decoder(tokenizer, /*skip_specials=*/false);
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id);
  return text + decoder.Flush();
}

void ExpectCases(const std::string& config) {
  const auto folder = kSource / "tests/data" / config;
  const Result<Tokenizer> tokenizer = Tokenizer::Load(folder / "model/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const std::string file = base::ReadFile(folder / "tokenizer_cases.json", kMaxBytes).value();
  const base::Json cases = base::ParseJson(file, "cases").value();
  ASSERT_FALSE(cases.empty());
  for (const base::Json& one : cases) {
    const auto ids = one["ids"].get<std::vector<int32_t>>();
    const auto text = one["text"].get<std::string>();
    EXPECT_EQ(tokenizer->Encode(text, Specials::kRecognise), ids) << text;
    EXPECT_EQ(tokenizer->Decode(ids, false), one["decoded"].get<std::string>());
    EXPECT_EQ(Stream(*tokenizer, ids), one["decoded"].get<std::string>());
  }
}

TEST(Golden, TinyA) { ExpectCases("tiny-a"); }
TEST(Golden, TinyB) { ExpectCases("tiny-b"); }

TEST(Golden, NanoHeldOutDocuments) {
  const Result<Tokenizer> tokenizer = Tokenizer::Load(kSource / "models/nano/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  std::istringstream lines(
      base::ReadFile(kSource / "tests/data/nano/heldout.jsonl", kMaxBytes).value());
  int documents = 0;
  for (std::string line; std::getline(lines, line); ++documents) {
    const base::Json one = base::ParseJson(line, "document").value();
    const auto ids = one["ids"].get<std::vector<int32_t>>();
    const auto text = one["text"].get<std::string>();
    EXPECT_EQ(tokenizer->Encode(text, Specials::kRecognise), ids) << documents;
    EXPECT_EQ(tokenizer->Decode(ids, false), text) << documents;
    EXPECT_EQ(Stream(*tokenizer, ids), text) << documents;
  }
  EXPECT_EQ(documents, 422);
}

}  // namespace
}  // namespace thalweg::text
