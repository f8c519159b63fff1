// An offer is read as it was written, and bytes that say what cannot be are refused.
#include "parallel/context_offer.h"

#include <gtest/gtest.h>

#include <functional>

namespace thalweg::parallel {
namespace {

constexpr OfferLimits kLimits{.chunks = 2,
                              .sequences = 4,
                              .positions = 200,
                              .vocab = 50,
                              .blocks = 9,
                              .block_tokens = 64,
                              .block_bytes = 3,
                              .state_bytes = 5};

OfferedChunk SomeChunk() {
  return {.sequence = 3,
          .start = 63,
          .decoder_from = 60,
          .logits = OfferedLogits::kLast,
          .anew = true,
          .encoder_floor = 1,
          .decoder_floor = 2,
          .write_from = 64,
          .tokens = {1, 2, 49},
          .image = {0, 1, 0},
          .first_block = 0,
          .blocks = {8, 2},
          .state = std::vector<std::byte>(5, std::byte{7}),
          .stale = {1},
          .rows = std::vector<std::byte>(3, std::byte{9})};
}

Status RoundTrip(const std::vector<OfferedChunk>& chunks) {
  std::vector<std::byte> bytes;
  EncodeOffer(chunks, &bytes);
  TW_ASSIGN(const std::vector<OfferedChunk> read, DecodeOffer(bytes, kLimits));
  EXPECT_EQ(read, chunks);
  return {};
}

TEST(ContextOffer, IsReadAsItWasWritten) {
  EXPECT_TRUE(RoundTrip({}).ok());
  EXPECT_TRUE(RoundTrip({SomeChunk()}).ok());
  OfferedChunk later = SomeChunk();
  later.anew = false;
  later.state.clear();
  later.image.clear();
  later.first_block = 2;
  later.blocks.clear();
  EXPECT_TRUE(RoundTrip({SomeChunk(), later}).ok());
}

TEST(ContextOffer, WhatCannotBeIsRefused) {
  const std::function<void(OfferedChunk*)> harms[] = {
      [](auto* c) { c->sequence = 4; },        [](auto* c) { c->sequence = -1; },
      [](auto* c) { c->start = 198; },         [](auto* c) { c->start = -1; },
      [](auto* c) { c->decoder_from = 201; },  [](auto* c) { c->encoder_floor = -1; },
      [](auto* c) { c->decoder_floor = 201; }, [](auto* c) { c->write_from = -3; },
      [](auto* c) { c->tokens.clear(); },      [](auto* c) { c->tokens[1] = 50; },
      [](auto* c) { c->image.pop_back(); },    [](auto* c) { c->blocks[0] = 9; },
      [](auto* c) { c->blocks.pop_back(); },   [](auto* c) { c->first_block = 3; },
      [](auto* c) { c->stale[0] = 2; },        [](auto* c) { c->rows.pop_back(); },
      [](auto* c) { c->state.pop_back(); },    [](auto* c) { c->anew = false; },
  };
  for (const auto& harm : harms) {
    OfferedChunk chunk = SomeChunk();
    harm(&chunk);
    EXPECT_EQ(RoundTrip({chunk}).code(), base::Code::kInvalidArgument);
  }
  EXPECT_FALSE(RoundTrip({SomeChunk(), SomeChunk(), SomeChunk()}).ok());
}

TEST(ContextOffer, CutBytesAreRefused) {
  const OfferedChunk chunk = SomeChunk();
  std::vector<std::byte> bytes;
  EncodeOffer({&chunk, 1}, &bytes);
  for (size_t i = 0; i < bytes.size(); ++i)
    EXPECT_FALSE(DecodeOffer(std::span(bytes).first(i), kLimits).ok()) << i;
  bytes.push_back({});
  EXPECT_FALSE(DecodeOffer(bytes, kLimits).ok());
}

}  // namespace
}  // namespace thalweg::parallel
