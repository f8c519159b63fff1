// What has to be equal: Engram constants, token map, quantisers, tokenizer.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/mapped_file.h"
#include "checkpoint/engram_tables.h"
#include "checkpoint/limits.h"
#include "checkpoint/token_map.h"
#include "tensor/row_format.h"
#include "text/tokenizer.h"
#include "tools/verify/context.h"

namespace thalweg::tools {
namespace {

using tensor::BF16;
using tensor::DType;
using tensor::RowFormat;

CheckId ExactId(const std::string& name) {
  return {.stage = Stage::kExact, .part = name, .name = name};
}

// A figure of differing elements, which must be none; lists of other lengths differ in what one
// lacks.
template <typename A, typename B>
double Differing(const A& a, const B& b) {
  const size_t common = std::min(a.size(), b.size());
  size_t differing = std::max(a.size(), b.size()) - common;
  for (size_t i = 0; i < common; ++i) differing += a[i] != b[i];
  return static_cast<double>(differing);
}

Status VerifyEngramConstants(VerifyContext& context) {
  TW_ASSIGN(const auto tables, checkpoint::BuildEngramTables(context.config()));
  std::vector<int64_t> primes, multipliers, offsets;
  for (const checkpoint::EngramTable& table : tables) {
    primes.insert(primes.end(), table.primes.begin(), table.primes.end());
    multipliers.insert(multipliers.end(), table.multipliers.begin(), table.multipliers.end());
    offsets.insert(offsets.end(), table.offsets.begin(), table.offsets.end());
  }
  const auto compare = [&](const std::string& key, const std::vector<int64_t>& ours) -> Status {
    TW_ASSIGN(const auto stored, context.golden.FlatIntegers("engram/" + key));
    context.report.AtMost(ExactId("engram/" + key), Differing(ours, stored), 0);
    return {};
  };
  TW_TRY(compare("primes_order_major", primes));
  TW_TRY(compare("multipliers_current_token_first", multipliers));
  return compare("offsets", offsets);
}

// The shipped map: raw little-endian int32, one per token id.
Result<std::vector<int32_t>> ShippedMap(const VerifyContext& context) {
  const auto path = context.checkpoint.dir() / "engram_token_map.bin";
  TW_ASSIGN(const std::string bytes,
            base::ReadFile(path, uint64_t{checkpoint::kMaxVocab} * sizeof(int32_t)));
  if (bytes.empty() || bytes.size() % sizeof(int32_t) != 0)
    return base::InvalidArgument(fmt::format("{}: not a list of int32", path.string()));
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

Status VerifyTokenMap(VerifyContext& context, const text::Tokenizer& tokenizer) {
  TW_ASSIGN(const auto map, checkpoint::ComputeTokenMap(tokenizer));
  TW_ASSIGN(const auto shipped, ShippedMap(context));
  const auto pad = static_cast<size_t>(context.config().engram_pad_token_id);
  if (pad >= map.ids.size())
    return base::InvalidArgument("the Engram pad token is not in the tokenizer");
  std::vector<int32_t> ours = map.ids;
  // Ids beyond the tokenizer share the pad token's.
  if (ours.size() < shipped.size()) ours.resize(shipped.size(), map.ids[pad]);
  context.report.AtMost(ExactId("engram_token_map.bin"), Differing(ours, shipped), 0);
  TW_ASSIGN(const auto pad_id, context.golden.FlatIntegers("engram/pad_compressed_id"));
  TW_ASSIGN(const auto size, context.golden.FlatIntegers("engram/compressed_vocab_size"));
  context.report.AtMost(ExactId("engram/pad_compressed_id"),
                        Differing(std::vector<int64_t>{map.ids[pad]}, pad_id), 0);
  context.report.AtMost(ExactId("engram/compressed_vocab_size"),
                        Differing(std::vector<int64_t>{map.distinct}, size), 0);
  return {};
}

struct Quantiser {
  std::string_view name;
  RowFormat format;
};
constexpr Quantiser kQuantisers[] = {{"fp8", RowFormat::kFp8E8M0},
                                     {"fp4_index", RowFormat::kFp4E8M0},
                                     {"fp4_kv", RowFormat::kFp4E4M3}};

// Differences of codes, scales and round trips over all rows.
struct QuantiserErrors {
  int64_t codes = 0;
  int64_t scales = 0;
  int64_t round_trips = 0;
};

struct StoredQuantiser {
  tensor::View codes;       // u8 [rows, code bytes]
  tensor::View scales;      // u8 [rows, scale bytes]
  tensor::View round_trip;  // bf16 [rows, width]
};

int64_t DifferingBytes(const uint8_t* a, const uint8_t* b, int64_t count) {
  int64_t differing = 0;
  for (int64_t i = 0; i < count; ++i) differing += a[i] != b[i];
  return differing;
}

QuantiserErrors CompareQuantiser(RowFormat format, const tensor::View& input,
                                 const StoredQuantiser& stored) {
  const int64_t width = input.shape[1];
  const int64_t codes = stored.codes.shape[1];
  const int64_t scales = stored.scales.shape[1];
  std::vector<uint8_t> row(static_cast<size_t>(tensor::RowBytes(format, width)));
  std::vector<BF16> round_trip(static_cast<size_t>(width));
  QuantiserErrors errors;
  for (int64_t r = 0; r < input.shape[0]; ++r) {
    const BF16* x = input.as<BF16>() + r * width;
    tensor::EncodeRow(format, x, width, row.data());
    tensor::RoundTripRow(format, x, width, round_trip.data());
    errors.codes += DifferingBytes(row.data(), stored.codes.as<uint8_t>() + r * codes, codes);
    errors.scales +=
        DifferingBytes(row.data() + codes, stored.scales.as<uint8_t>() + r * scales, scales);
    for (int64_t c = 0; c < width; ++c) {
      errors.round_trips += round_trip[static_cast<size_t>(c)].bits !=
                            stored.round_trip.as<BF16>()[r * width + c].bits;
    }
  }
  return errors;
}

Status VerifyQuantiser(VerifyContext& context, const tensor::View& input, const Quantiser& q) {
  const std::string base = fmt::format("quant/{}", q.name);
  const int64_t rows = input.shape[0];
  const int64_t width = input.shape[1];
  const int64_t scales = width / tensor::GroupSize(q.format);
  const int64_t codes = tensor::RowBytes(q.format, width) - scales;
  StoredQuantiser stored;
  TW_ASSIGN(stored.codes, context.golden.Get(base + "/codes", DType::kU8, {rows, codes}));
  TW_ASSIGN(stored.scales, context.golden.Get(base + "/scale", DType::kU8, {rows, scales}));
  TW_ASSIGN(stored.round_trip, context.golden.Get(base + "/dequant", DType::kBF16, {rows, width}));
  const QuantiserErrors errors = CompareQuantiser(q.format, input, stored);
  context.report.AtMost(ExactId(base + "/codes"), static_cast<double>(errors.codes), 0);
  context.report.AtMost(ExactId(base + "/scale"), static_cast<double>(errors.scales), 0);
  context.report.AtMost(ExactId(base + "/dequant"), static_cast<double>(errors.round_trips), 0);
  return {};
}

Status VerifyQuantisers(VerifyContext& context) {
  if (context.golden.EntriesBelow("quant/").empty()) return {};
  TW_ASSIGN(const tensor::View input,
            context.golden.Get("quant/input", DType::kBF16, {kAnyDimension, kAnyDimension}));
  if (input.shape[1] % tensor::GroupSize(RowFormat::kFp8E8M0) != 0)
    return base::InvalidArgument(
        "golden entry quant/input: rows are no whole number of groups of 32");
  for (const Quantiser& q : kQuantisers) TW_TRY(VerifyQuantiser(context, input, q));
  return {};
}

struct TokenizerErrors {
  double ids = 0;
  double text = 0;
};

Result<TokenizerErrors> CompareCases(const text::Tokenizer& tokenizer, const base::Json& cases) {
  TokenizerErrors errors;
  for (const base::Json& one : cases) {
    const bool whole = one.is_object() && one.contains("text") && one["text"].is_string() &&
                       one.contains("decoded") && one["decoded"].is_string() &&
                       one.contains("ids") && one["ids"].is_array();
    const auto number = [](const base::Json& id) { return id.is_number_integer(); };
    if (!whole || !std::all_of(one["ids"].begin(), one["ids"].end(), number))
      return base::InvalidArgument("a case is not {text, ids, decoded}");
    const auto ids = one["ids"].get<std::vector<int32_t>>();
    const auto ours = tokenizer.Encode(one["text"].get<std::string>(), text::Specials::kRecognise);
    errors.ids += ours != ids;
    errors.text += tokenizer.Decode(ids, false) != one["decoded"].get<std::string>();
  }
  return errors;
}

Status VerifyTokenizer(VerifyContext& context, const text::Tokenizer& tokenizer) {
  const auto path = context.golden.dir() / "tokenizer_cases.json";
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxManifestBytes));
  TW_ASSIGN(const base::Json cases, base::ParseJson(text, path.string()));
  if (!cases.is_array() || cases.empty())
    return base::InvalidArgument(fmt::format("{}: not a list of cases", path.string()));
  const Result<TokenizerErrors> errors = CompareCases(tokenizer, cases);
  TW_TRY(errors.status().WithContext(path.string()));
  context.report.AtMost(ExactId("tokenizer_cases/ids"), errors->ids, 0,
                        fmt::format("{} cases", cases.size()));
  context.report.AtMost(ExactId("tokenizer_cases/decoded"), errors->text, 0,
                        fmt::format("{} cases", cases.size()));
  return {};
}

}  // namespace

Status VerifyExact(VerifyContext& context) {
  TW_ASSIGN(const auto tokenizer,
            text::Tokenizer::Load(context.checkpoint.dir() / "tokenizer.json"));
  TW_TRY(VerifyTokenizer(context, tokenizer));
  TW_TRY(VerifyQuantisers(context));
  if (!context.config().HasEngram()) return {};
  TW_TRY(VerifyEngramConstants(context));
  return VerifyTokenMap(context, tokenizer);
}

}  // namespace thalweg::tools
