#include "tests/mistakes/mistakes.h"

#include <array>

namespace thalweg::tests {
namespace {

using tensor::RowFormat;
using tools::VerifyOptions;

constexpr std::array kMistakes = {
    Mistake{"mHC matrix transposed", TransposeComb},
    Mistake{"sublayer uses its own pre-mix", UseOwnPreMix},
    Mistake{"attention sink ignored", IgnoreSink},
    Mistake{"no inverse rope on the output", SkipInverseRope},
    Mistake{"ratio-1 layers with the ratio-0 rope", UsePlainRopeAtRatioOne},
    Mistake{"YaRN ignored", IgnoreYarn},
    Mistake{"window one token short", ShortenWindow},
    Mistake{"window KV not quantised", nullptr,
            [](VerifyOptions* o) { o->window_format = RowFormat::kBF16; }},
    Mistake{"compressed KV quantised like the index (32, E8M0)", nullptr,
            [](VerifyOptions* o) { o->main_format = RowFormat::kFp4E8M0; }},
    Mistake{"compressed KV and index not quantised", nullptr,
            [](VerifyOptions* o) { o->main_format = o->index_format = RowFormat::kBF16; }},
    Mistake{"indexer ignored (all visible positions)", IgnoreIndexer},
    Mistake{"candidate pool ignored", IgnoreCandidates},
    Mistake{"index_topk smaller by one", ShortenTopk},
    Mistake{"routing weight after w2", WeightBehindDown},
    Mistake{"router bias inside the weights", BiasInWeights},
    Mistake{"routing weights not normalised", SkipNormalisation},
    Mistake{"sigmoid scores", UseSigmoidScores},
    Mistake{"SwiGLU clamp missing", SkipClamp},
    Mistake{"Engram gate without the signed square root", SkipSignedRoot},
    Mistake{"Engram off", TurnEngramOff},
    Mistake{"activations not quantised (W8A16 / W4A16)", nullptr,
            [](VerifyOptions* o) { o->activation_format = RowFormat::kBF16; }},
};

}  // namespace

std::span<const Mistake> Mistakes() { return kMistakes; }

}  // namespace thalweg::tests
