// Sums in the order of ranks. A short vector is gathered whole and added up by everybody; a long
// one is cut in as many pieces as there are ranks, each piece goes to one rank, which adds it up,
// and the sums are gathered: 2 (n - 1) / n of the vector each way. Both ways each element is
// ((r0 + r1) + r2) + ..., so the bits are the same.
#include <algorithm>

#include "base/check.h"
#include "comm/communicator.h"

namespace thalweg::comm {
namespace {

// sums[i] = parts[0][i] + parts[1][i] + ..., of parts of one length behind one another.
template <typename T, typename Wide>
void AddInOrder(std::span<const T> parts, std::span<T> sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    auto sum = static_cast<Wide>(parts[i]);
    for (size_t at = i + sums.size(); at < parts.size(); at += sums.size())
      sum = static_cast<Wide>(sum + static_cast<Wide>(parts[at]));
    sums[i] = static_cast<T>(sum);
  }
}

// Elements [Cut(r), Cut(r + 1)) belong to rank r.
size_t Cut(size_t count, int rank, int size) {
  return count / static_cast<size_t>(size) * static_cast<size_t>(rank) +
         std::min(count % static_cast<size_t>(size), static_cast<size_t>(rank));
}

// The bytes of every rank's elements.
std::vector<int64_t> PieceBytes(size_t count, int size, size_t element) {
  std::vector<int64_t> bytes;
  for (int r = 0; r < size; ++r)
    bytes.push_back(
        static_cast<int64_t>((Cut(count, r + 1, size) - Cut(count, r, size)) * element));
  return bytes;
}

}  // namespace

template <typename T, typename Wide>
Status Communicator::SumWhole(std::span<T> values) {
  std::vector<T> all(values.size() * static_cast<size_t>(size_));
  TW_TRY(AllGather(std::as_bytes(values), std::as_writable_bytes(std::span(all))));
  AddInOrder<T, Wide>(all, values);
  return {};
}

template <typename T, typename Wide>
Status Communicator::SumPieces(std::span<T> values) {
  const std::vector<int64_t> bytes = PieceBytes(values.size(), size_, sizeof(T));
  const size_t begin = Cut(values.size(), rank_, size_);
  const auto mine = values.subspan(begin, Cut(values.size(), rank_ + 1, size_) - begin);
  std::vector<T> parts(mine.size() * static_cast<size_t>(size_));
  const std::vector<int64_t> part_bytes(static_cast<size_t>(size_),
                                        static_cast<int64_t>(mine.size_bytes()));
  TW_TRY(
      AllToAll(std::as_bytes(values), bytes, std::as_writable_bytes(std::span(parts)), part_bytes));
  AddInOrder<T, Wide>(parts, mine);
  return AllGather(std::as_bytes(mine), bytes, std::as_writable_bytes(values));
}

template <typename T, typename Wide>
Status Communicator::SumAs(std::span<T> values) {
  TW_CHECK(on_host());
  if (size_ == 1) return {};
  if (static_cast<int64_t>(values.size_bytes()) < kSmallSumBytes) return SumWhole<T, Wide>(values);
  return SumPieces<T, Wide>(values);
}

Status Communicator::Sum(std::span<float> values, Accumulation accumulation) {
  if (accumulation == Accumulation::kFp64) return SumAs<float, double>(values);
  return SumAs<float, float>(values);
}

Status Communicator::Sum(std::span<double> values) { return SumAs<double, double>(values); }

// Unsigned, for sums that wrap are no error of the language there.
Status Communicator::Sum(std::span<int64_t> values) { return SumAs<int64_t, uint64_t>(values); }

}  // namespace thalweg::comm
