#include "parallel/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "parallel/limits.h"

namespace thalweg::parallel {
namespace {

Group GroupAt(int index, int size, int ranks) {
  const int first = index * size;
  return {index, first, std::min(size, ranks - first)};
}

std::string DescribeGroups(int size, int ranks) {
  const int whole = ranks / size;
  std::string text = fmt::format("{} of {}", whole, size);
  if (ranks % size != 0) text += fmt::format(" and one of {}", ranks % size);
  return text;
}

}  // namespace

Result<Mesh> Mesh::Make(MeshShape shape) {
  if (shape.ranks < 1 || shape.ranks > kMostRanks)
    return base::OutOfRange(fmt::format("{} ranks: 1 to {} are possible", shape.ranks, kMostRanks));
  if (shape.experts == 0) shape.experts = shape.ranks;
  for (const auto& [size, what] :
       {std::pair(shape.context, "share a context"), std::pair(shape.experts, "share the experts")})
    if (size < 1 || size > shape.ranks)
      return base::InvalidArgument(
          fmt::format("{} ranks cannot {} where there are {}", size, what, shape.ranks));
  return Mesh(shape);
}

int Mesh::attention_groups() const { return base::CeilDiv(shape_.ranks, shape_.context); }

int Mesh::expert_groups() const { return base::CeilDiv(shape_.ranks, shape_.experts); }

Group Mesh::AttentionGroup(int index) const {
  TW_CHECK(index >= 0 && index < attention_groups());
  return GroupAt(index, shape_.context, shape_.ranks);
}

Group Mesh::ExpertGroupOf(int rank) const {
  TW_CHECK(rank >= 0 && rank < shape_.ranks);
  return GroupAt(rank / shape_.experts, shape_.experts, shape_.ranks);
}

std::string Mesh::Describe() const {
  return fmt::format("{} ranks: attention in groups: {}; experts in groups: {}", shape_.ranks,
                     DescribeGroups(shape_.context, shape_.ranks),
                     DescribeGroups(shape_.experts, shape_.ranks));
}

}  // namespace thalweg::parallel
