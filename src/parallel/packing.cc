#include "parallel/packing.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace thalweg::parallel {
namespace {

// The item whose replicas carry most each.
size_t Heaviest(std::span<const double> loads, const std::vector<int32_t>& count) {
  size_t best = 0;
  for (size_t e = 1; e < loads.size(); ++e)
    if (loads[e] / count[e] > loads[best] / count[best]) best = e;
  return best;
}

size_t LightestWithRoom(const std::vector<double>& weight, const std::vector<size_t>& items,
                        size_t room) {
  size_t best = weight.size();
  for (size_t p = 0; p < weight.size(); ++p)
    if (items[p] < room && (best == weight.size() || weight[p] < weight[best])) best = p;
  return best;
}

std::vector<int32_t> ByDescendingLoad(std::span<const double> loads) {
  std::vector<int32_t> order(loads.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return loads[static_cast<size_t>(a)] > loads[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace

Replicas Replicate(std::span<const double> loads, int64_t replicas) {
  TW_CHECK(!loads.empty());
  TW_CHECK_GE(replicas, static_cast<int64_t>(loads.size()));
  Replicas out;
  out.item.resize(loads.size());
  std::iota(out.item.begin(), out.item.end(), 0);
  out.count.assign(loads.size(), 1);
  while (static_cast<int64_t>(out.item.size()) < replicas) {
    const size_t item = Heaviest(loads, out.count);
    out.item.push_back(static_cast<int32_t>(item));
    ++out.count[item];
  }
  return out;
}

std::vector<int32_t> Pack(std::span<const double> loads, int64_t packs) {
  TW_CHECK_GT(packs, 0);
  const auto pack_count = static_cast<size_t>(packs);
  TW_CHECK_EQ(loads.size() % pack_count, size_t{0});
  const size_t room = loads.size() / pack_count;
  std::vector<int32_t> packed(loads.size());
  if (room == 1) {
    std::iota(packed.begin(), packed.end(), 0);
    return packed;
  }
  std::vector<double> weight(pack_count, 0.0);
  std::vector<size_t> items(pack_count, 0);
  for (const int32_t item : ByDescendingLoad(loads)) {
    const size_t pack = LightestWithRoom(weight, items, room);
    packed[pack * room + items[pack]++] = item;
    weight[pack] += loads[static_cast<size_t>(item)];
  }
  return packed;
}

}  // namespace thalweg::parallel
