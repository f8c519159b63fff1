// SHA-256 gives the published digests, whatever way the bytes are cut.
#include "base/sha256.h"

#include <gtest/gtest.h>

namespace thalweg::base {
namespace {

TEST(Sha256, PublishedDigests) {
  EXPECT_EQ(HexOf(Sha256Of("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf(Sha256Of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, EveryCutGivesTheSame) {
  const std::string text(1000, 'a');
  const Sha256Digest whole = Sha256Of(text);
  for (size_t cut = 0; cut <= text.size(); cut += 37) {
    Sha256 hash;
    hash.Update(std::string_view(text).substr(0, cut)).Update(std::string_view(text).substr(cut));
    EXPECT_EQ(hash.Finish(), whole);
  }
}

}  // namespace
}  // namespace thalweg::base
