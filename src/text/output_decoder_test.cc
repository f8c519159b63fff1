// The meaning of a stream does not depend on how it is cut: every stream of the corpus gives what
// is expected of it whole, cut in two at every byte, byte by byte and cut at random, and every
// event on the way is well-formed (spec/serving.md 2.7, R09, R10).
#include "text/output_decoder.h"

#include <gtest/gtest.h>

#include <functional>

#include "text/test_decoder_corpus.h"
#include "text/test_output_stream.h"
#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

// How many bytes come next, at this place.
using Cut = std::function<size_t(size_t at)>;

DecodedOutput Decode(const DecoderCase& one, const Cut& cut) {
  OutputStream stream(one.options);
  size_t at = 0;
  for (const auto& piece : one.input) {
    if (const auto* mark = std::get_if<ThinkMark>(&piece)) {
      stream.PushMark(*mark);
      continue;
    }
    std::string_view rest = std::get<std::string>(piece);
    while (!rest.empty()) {
      const size_t length = std::min(std::max<size_t>(cut(at), 1), rest.size());
      stream.Push(rest.substr(0, length));
      rest.remove_prefix(length);
      at += length;
    }
  }
  return stream.Finish(one.reason);
}

size_t BytesOf(const DecoderCase& one) {
  size_t bytes = 0;
  for (const auto& piece : one.input) {
    if (const auto* text = std::get_if<std::string>(&piece)) bytes += text->size();
  }
  return bytes;
}

std::vector<DecoderCase> Corpus() {
  std::vector<DecoderCase> cases = ReadDecoderCases("hand.jsonl");
  for (DecoderCase& one : ReadDecoderCases("random.jsonl")) cases.push_back(std::move(one));
  return cases;
}

TEST(OutputDecoder, EveryStreamOfTheCorpusMeansWhatIsExpected) {
  const std::vector<DecoderCase> corpus = Corpus();
  EXPECT_GE(corpus.size(), 300u);
  for (const DecoderCase& one : corpus) {
    const DecodedOutput output = Decode(one, [](size_t) { return SIZE_MAX; });
    EXPECT_EQ(output, one.expect) << one.name;
  }
}

TEST(OutputDecoder, EveryCutInTwoMeansTheSame) {
  for (const DecoderCase& one : Corpus()) {
    const size_t bytes = BytesOf(one);
    for (size_t place = 1; place < bytes; ++place) {
      const Cut cut = [&](size_t at) { return at < place ? place - at : SIZE_MAX; };
      const DecodedOutput output = Decode(one, cut);
      ASSERT_EQ(output, one.expect) << one.name << ", cut at " << place;
    }
  }
}

TEST(OutputDecoder, PiecesOfAFixedSizeMeanTheSame) {
  for (const DecoderCase& one : Corpus()) {
    for (const size_t size : {1, 2, 3, 5, 7, 13}) {
      ASSERT_EQ(Decode(one, [&](size_t) { return size; }), one.expect) << one.name << ", " << size;
    }
  }
}

TEST(OutputDecoder, RandomPiecesMeanTheSame) {
  Dice dice(7);
  for (const DecoderCase& one : Corpus()) {
    for (int round = 0; round < 40; ++round) {
      const uint32_t longest = 1 + dice.Below(40);
      const Cut cut = [&](size_t) { return 1 + dice.Below(longest); };
      ASSERT_EQ(Decode(one, cut), one.expect) << one.name;
    }
  }
}

}  // namespace
}  // namespace thalweg::text
