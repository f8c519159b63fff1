// How the mask of a row is made: which of the ways is the cheapest, all of them exact.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "grammar/earley_rows.h"
#include "grammar/mask_walk.h"
#include "grammar/matcher.h"

namespace thalweg::grammar {

class MaskMaker {
 public:
  using MaskOf = std::function<std::shared_ptr<const Mask>(int32_t row)>;

  // `mask_of` gives the mask of another row, remembered or made; null when that has failed. It is
  // asked for one that does not ask in its turn.
  MaskMaker(const Vocabulary& vocabulary, Rows* rows, Terminals* terminals, MaskOf mask_of);

  // Null: rows->failure().
  std::shared_ptr<const Mask> Make(int32_t row);
  // By the plain walk over all tokens: what every other way must agree with.
  std::shared_ptr<const Mask> MakePlainly(int32_t row);

 private:
  // The rows after 0, 1, 2, ... characters of one alphabet, whichever they are.
  struct Run {
    std::vector<int32_t> rows = {};
    bool for_ever = false;    // the last row is also the one after any more of them; otherwise none
                              // can follow it, or rows.size() > Alphabet::kMost
    ByteSet exceptions = {};  // characters that the run says nothing about
  };
  struct Step {
    int32_t row;  // kDead: no character of the alphabet can follow
    ByteSet exceptions;
  };

  bool Fill(int32_t row, Mask* mask);
  bool AddEnds(int32_t row, Mask* mask);
  int64_t NodesFrom(int32_t row);
  std::optional<Step> StepOf(int32_t row, int32_t alphabet);
  std::optional<Run> RunOf(int32_t row, int32_t alphabet);
  bool FillByRun(const Alphabet& alphabet, const Run& run, Mask* mask);
  bool WalkRests(const Alphabet& alphabet, const Run& run, MaskWalk* walk);
  bool WalkExceptions(int32_t row, const ByteSet& exceptions, MaskWalk* walk);
  int32_t BaseOf(int32_t row);
  int64_t NodesThatDiffer(int32_t a, int32_t b);

  const Vocabulary& vocabulary_;
  const Vocabulary::Trie& trie_;
  Rows& rows_;
  Terminals& terminals_;
  MaskOf mask_of_;
};

}  // namespace thalweg::grammar
