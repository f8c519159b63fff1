// Which ranks work together at what. Attention: groups of consecutive ranks that share the rows of
// a prompt (context parallel); requests belong to one group (data parallel). Experts: groups of
// consecutive ranks that hold all experts between them (expert parallel). Sizes need not divide one
// another: the last group is what is left.
#pragma once

#include <string>

#include "base/status.h"

namespace thalweg::parallel {

struct MeshShape {
  int ranks = 1;
  int context = 1;  // ranks of an attention group
  int experts = 0;  // ranks of an expert group; 0: all
};

// Consecutive ranks.
struct Group {
  int index = 0;  // among the groups of its kind
  int first = 0;  // rank
  int size = 1;

  bool Has(int rank) const { return rank >= first && rank < first + size; }
  int PlaceOf(int rank) const { return rank - first; }
  bool operator==(const Group&) const = default;
};

class Mesh {
 public:
  // An error names the size that does not fit.
  static Result<Mesh> Make(MeshShape shape);

  int ranks() const { return shape_.ranks; }
  int attention_groups() const;  // the width of data parallelism
  int expert_groups() const;
  Group AttentionGroup(int index) const;
  Group AttentionGroupOf(int rank) const { return AttentionGroup(rank / shape_.context); }
  Group ExpertGroupOf(int rank) const;
  // "8 ranks: attention in groups: 4 of 2; experts in groups: 1 of 8".
  std::string Describe() const;

 private:
  explicit Mesh(MeshShape shape) : shape_(shape) {}
  MeshShape shape_;
};

}  // namespace thalweg::parallel
