#include "tools/bench/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/sample_text.h"

namespace thalweg::tools {
namespace {

constexpr size_t kTextBytes = size_t{1} << 20;
constexpr int kRounds = 5;  // the best one counts: the others were disturbed
constexpr uint64_t kSeed = 1;

struct Row {
  std::string kind;
  double encode_mib_s = 0;
  double decode_mib_s = 0;
  double bytes_per_token = 0;
};

// MiB/s of the fastest of kRounds runs of `work` over `bytes` bytes.
template <typename Work>
double BestRate(size_t bytes, const Work& work) {
  double best_s = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best_s = std::min(best_s, took.count());
  }
  return static_cast<double>(bytes) / best_s / 1048576.0;
}

Result<Row> Measure(const text::Tokenizer& tokenizer, size_t kind) {
  Row row{.kind = std::string(text::kSampleKinds[kind])};
  const std::string sample = text::SampleText(kind, kTextBytes, kSeed);
  std::vector<int32_t> ids;
  std::string decoded;
  row.encode_mib_s = BestRate(sample.size(), [&] {
    ids.clear();
    tokenizer.EncodeTo(sample, text::Specials::kAsText, ids);
  });
  row.decode_mib_s = BestRate(sample.size(), [&] { decoded = tokenizer.Decode(ids, false); });
  if (decoded != sample) {
    return base::Internal(fmt::format("the {} text does not come back from its ids", row.kind));
  }
  row.bytes_per_token = static_cast<double>(sample.size()) / static_cast<double>(ids.size());
  return row;
}

void PrintTable(const std::vector<Row>& rows) {
  fmt::print("{:<10} {:>14} {:>14} {:>12}\n", "text", "encode MiB/s", "decode MiB/s",
             "bytes/token");
  for (const Row& row : rows) {
    fmt::print("{:<10} {:>14.1f} {:>14.1f} {:>12.2f}\n", row.kind, row.encode_mib_s,
               row.decode_mib_s, row.bytes_per_token);
  }
}

void PrintJson(const std::vector<Row>& rows) {
  base::Json document = {{"bench", "tokenizer"}, {"threads", 1}, {"rows", base::Json::array()}};
  for (const Row& row : rows) {
    document["rows"].push_back({{"text", row.kind},
                                {"encode_mib_s", row.encode_mib_s},
                                {"decode_mib_s", row.decode_mib_s},
                                {"bytes_per_token", row.bytes_per_token}});
  }
  fmt::print("{}\n", document.dump(2));
}

}  // namespace

Status BenchTokenizer(const text::Tokenizer& tokenizer, bool json) {
  std::vector<Row> rows;
  for (size_t kind = 0; kind < text::kSampleKinds.size(); ++kind) {
    TW_ASSIGN(Row row, Measure(tokenizer, kind));
    rows.push_back(std::move(row));
  }
  json ? PrintJson(rows) : PrintTable(rows);
  return {};
}

}  // namespace thalweg::tools
