// Groups of a mesh cover the ranks once, in order, also where sizes do not divide; sizes that
// cannot be are refused.
#include "parallel/mesh.h"

#include <gtest/gtest.h>

namespace thalweg::parallel {
namespace {

TEST(Mesh, GroupsCoverTheRanks) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int context = 1; context <= ranks; ++context)
      for (int experts = 1; experts <= ranks; ++experts) {
        const auto mesh = Mesh::Make({ranks, context, experts});
        ASSERT_TRUE(mesh.ok());
        int next = 0;
        for (int g = 0; g < mesh->attention_groups(); ++g) {
          const Group group = mesh->AttentionGroup(g);
          EXPECT_EQ(group.first, next);
          for (int r = group.first; r < group.first + group.size; ++r) {
            EXPECT_EQ(mesh->AttentionGroupOf(r), group);
            EXPECT_TRUE(mesh->ExpertGroupOf(r).Has(r));
            EXPECT_EQ(mesh->ExpertGroupOf(r).first % experts, 0);
          }
          next += group.size;
        }
        EXPECT_EQ(next, ranks);
      }
}

TEST(Mesh, ExpertsAreOverAllRanksByDefault) {
  const auto mesh = Mesh::Make({.ranks = 7, .context = 2});
  EXPECT_EQ(mesh->ExpertGroupOf(3), (Group{0, 0, 7}));
  EXPECT_EQ(mesh->expert_groups(), 1);
  EXPECT_EQ(mesh->Describe(),
            "7 ranks: attention in groups: 3 of 2 and one of 1; experts in groups: 1 of 7");
}

TEST(Mesh, SizesThatCannotBeAreRefused) {
  EXPECT_EQ(Mesh::Make({.ranks = 4, .context = 5}).status().message(),
            "5 ranks cannot share a context where there are 4");
  EXPECT_FALSE(Mesh::Make({.ranks = 4, .context = 0}).ok());
  EXPECT_FALSE(Mesh::Make({.ranks = 4, .experts = -1}).ok());
  EXPECT_FALSE(Mesh::Make({.ranks = 0}).ok());
  EXPECT_FALSE(Mesh::Make({.ranks = 1 << 20}).ok());
}

}  // namespace
}  // namespace thalweg::parallel
