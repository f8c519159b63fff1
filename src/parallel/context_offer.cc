#include "parallel/context_offer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/math.h"

namespace thalweg::parallel {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<std::byte>* bytes) : bytes_(bytes) {}

  Status Field(int64_t value) {
    Append(&value, sizeof(value));
    return {};
  }
  template <typename T>
  Status Values(const std::vector<T>& values) {
    TW_TRY(Field(static_cast<int64_t>(values.size())));
    Append(values.data(), values.size() * sizeof(T));
    return {};
  }

 private:
  void Append(const void* from, size_t count) {
    if (count == 0) return;
    const size_t at = bytes_->size();
    bytes_->resize(at + count);
    std::memcpy(bytes_->data() + at, from, count);
  }
  std::vector<std::byte>* bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> left) : left_(left) {}
  bool done() const { return left_.empty(); }

  template <typename T>
  Status Field(T& value) {
    int64_t wide = 0;
    TW_TRY(Take(&wide, 1));
    value = static_cast<T>(wide);
    if (static_cast<int64_t>(value) == wide) return {};
    return base::InvalidArgument(fmt::format("an offer with a field of {}", wide));
  }
  template <typename T>
  Status Values(std::vector<T>& values) {
    int64_t count = 0;
    TW_TRY(Field(count));
    if (count < 0 || count > static_cast<int64_t>(left_.size() / sizeof(T)))
      return base::InvalidArgument("an offer that is cut off");
    values.resize(static_cast<size_t>(count));
    return Take(values.data(), values.size());
  }

 private:
  template <typename T>
  Status Take(T* to, size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes > left_.size()) return base::InvalidArgument("an offer that is cut off");
    if (bytes > 0) std::memcpy(to, left_.data(), bytes);
    left_ = left_.subspan(bytes);
    return {};
  }
  std::span<const std::byte> left_;
};

// The fields of a chunk in their order, to be written or read.
template <typename Chunk, typename Archive>
Status Fields(Chunk& c, Archive* archive) {
  for (auto* field : {&c.start, &c.decoder_from, &c.encoder_floor, &c.decoder_floor, &c.write_from,
                      &c.first_block})
    TW_TRY(archive->Field(*field));
  TW_TRY(archive->Field(c.sequence));
  TW_TRY(archive->Values(c.tokens));
  TW_TRY(archive->Values(c.image));
  TW_TRY(archive->Values(c.blocks));
  TW_TRY(archive->Values(c.state));
  TW_TRY(archive->Values(c.stale));
  return archive->Values(c.rows);
}

bool Within(int64_t value, int64_t limit) { return value >= 0 && value < limit; }

template <typename T>
bool AllWithin(const std::vector<T>& values, int64_t limit) {
  return std::all_of(values.begin(), values.end(),
                     [limit](T value) { return Within(static_cast<int64_t>(value), limit); });
}

bool PositionsFit(const OfferedChunk& c, const OfferLimits& limits) {
  const auto count = static_cast<int64_t>(c.tokens.size());
  if (count == 0 || count > limits.positions) return false;
  if (!Within(c.start, limits.positions - count + 1)) return false;
  for (const int64_t position : {c.decoder_from, c.encoder_floor, c.decoder_floor, c.write_from})
    if (!Within(position, limits.positions + 1)) return false;
  return AllWithin(c.tokens, limits.vocab) &&
         (c.image.empty() || c.image.size() == c.tokens.size());
}

bool BlocksFit(const OfferedChunk& c, const OfferLimits& limits) {
  const int64_t table = base::CeilDiv(c.end(), limits.block_tokens);
  const auto stale = static_cast<int64_t>(c.stale.size());
  if (!Within(c.first_block, table + 1) || !AllWithin(c.blocks, limits.blocks)) return false;
  if (c.first_block + static_cast<int64_t>(c.blocks.size()) != table) return false;
  return stale <= table && AllWithin(c.stale, table) &&
         static_cast<int64_t>(c.rows.size()) == stale * limits.block_bytes;
}

Status CheckChunk(const OfferedChunk& c, const OfferLimits& limits) {
  if (!Within(c.sequence, limits.sequences))
    return base::InvalidArgument(fmt::format("an offer of sequence {}", c.sequence));
  if (!PositionsFit(c, limits))
    return base::InvalidArgument(
        fmt::format("an offer of {} rows from {}", c.tokens.size(), c.start));
  if (!BlocksFit(c, limits))
    return base::InvalidArgument(fmt::format("an offer of {} blocks, {} of them with rows",
                                             c.blocks.size(), c.stale.size()));
  const auto state = static_cast<int64_t>(c.state.size());
  if (state != 0 && (state != limits.state_bytes || !c.anew))
    return base::InvalidArgument(fmt::format("an offer with {} bytes of state", state));
  return {};
}

}  // namespace

void EncodeOffer(std::span<const OfferedChunk> chunks, std::vector<std::byte>* bytes) {
  bytes->clear();
  Writer writer(bytes);
  static_cast<void>(writer.Field(static_cast<int64_t>(chunks.size())));
  for (const OfferedChunk& chunk : chunks) {
    static_cast<void>(writer.Field(static_cast<int64_t>(chunk.logits)));
    static_cast<void>(writer.Field(chunk.anew ? 1 : 0));
    static_cast<void>(Fields(chunk, &writer));
  }
}

Result<std::vector<OfferedChunk>> DecodeOffer(std::span<const std::byte> bytes,
                                              const OfferLimits& limits) {
  Reader reader(bytes);
  int64_t count = 0;
  TW_TRY(reader.Field(count));
  if (count < 0 || count > limits.chunks)
    return base::InvalidArgument(fmt::format("an offer of {} chunks", count));
  std::vector<OfferedChunk> chunks(static_cast<size_t>(count));
  for (OfferedChunk& chunk : chunks) {
    int64_t logits = 0, anew = 0;
    TW_TRY(reader.Field(logits));
    TW_TRY(reader.Field(anew));
    if (!Within(logits, 3) || !Within(anew, 2))
      return base::InvalidArgument("an offer with an unknown mark");
    chunk.logits = static_cast<OfferedLogits>(logits);
    chunk.anew = anew == 1;
    TW_TRY(Fields(chunk, &reader));
    TW_TRY(CheckChunk(chunk, limits));
  }
  if (!reader.done()) return base::InvalidArgument("an offer with bytes behind its end");
  return chunks;
}

}  // namespace thalweg::parallel
