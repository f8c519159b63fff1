// What a rank tells its attention group before a step in which it would share the rows of prompts
// (spec/decoding.md 7.4): the chunks, and what the others need to have of their sequences. Bytes
// from another process, so whatever is read is checked against the sizes that all ranks have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace thalweg::parallel {

enum class OfferedLogits : uint8_t { kNone, kLast, kAll };

// New rows of one sequence.
struct OfferedChunk {
  int32_t sequence = 0;      // number on the rank that has it
  int64_t start = 0;         // position of the first token
  int64_t decoder_from = 0;  // rows below run the encoder alone
  OfferedLogits logits = OfferedLogits::kNone;
  bool anew = false;  // what the others have of the sequence is void: it begins with `state`
  int64_t encoder_floor = 0, decoder_floor = 0, write_from = 0;
  std::vector<int32_t> tokens = {};
  std::vector<uint8_t> image = {};  // a mark for each token, or none
  int64_t first_block = 0;          // the others have the block table below
  std::vector<int32_t> blocks = {};
  std::vector<std::byte> state = {};  // bounded state of `start` tokens; empty: there is none
  std::vector<int32_t> stale = {};    // places in the block table whose rows the others lack
  std::vector<std::byte> rows = {};   // [stale, bytes of a block]

  int64_t end() const { return start + static_cast<int64_t>(tokens.size()); }
  bool operator==(const OfferedChunk&) const = default;
};

// What values may be.
struct OfferLimits {
  int64_t chunks = 0;
  int64_t sequences = 0;
  int64_t positions = 0;
  int64_t vocab = 0;
  int64_t blocks = 0;
  int64_t block_tokens = 1;
  int64_t block_bytes = 0;
  int64_t state_bytes = 0;
};

void EncodeOffer(std::span<const OfferedChunk> chunks, std::vector<std::byte>* bytes);
// kInvalidArgument: not what EncodeOffer writes, or values beyond the limits.
Result<std::vector<OfferedChunk>> DecodeOffer(std::span<const std::byte> bytes,
                                              const OfferLimits& limits);

}  // namespace thalweg::parallel
